"use strict";

// Keys that are paths of any texts: labels with slashes between them. The Python package has the same.

/**
 * The key of a path. No two paths have one key, and `join(a) + "/"` begins every key below `a`.
 * @param {readonly string[]} labels
 */
function join(labels) {
  return labels.map((label) => label.replaceAll("~", "~0").replaceAll("/", "~1")).join("/");
}

/**
 * The labels of which `join` has made the key.
 * @param {string} key
 */
function split(key) {
  return key.split("/").map((label) => label.replaceAll("~1", "/").replaceAll("~0", "~"));
}

module.exports = { join, split };
