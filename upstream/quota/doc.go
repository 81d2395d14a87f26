// Package quota keeps how much of each namespace's quota is used, over restarts and power cuts.
package quota
