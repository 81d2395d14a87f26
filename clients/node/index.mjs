import botwired from "./index.js";

export const { ABSENT, BotwiredError, Conflict, Incomplete, Memory, Refused, Unauthorized, Unavailable, Unsupported, binary } = botwired;
