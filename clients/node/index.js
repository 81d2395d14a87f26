"use strict";

const { ABSENT, Memory } = require("./lib/memory.js");
Object.assign(exports, require("./lib/errors.js"), { ABSENT, Memory });

// The program is in a package for its platform. npm installs the one package whose "os" and "cpu"
// are this machine's, because each is an optional dependency of this one.
const { optionalDependencies = {} } = require("./package.json");

exports.binary = function binary() {
  const name = `@botwired/${process.platform}-${process.arch}`;
  const file = process.platform === "win32" ? "botwired.exe" : "botwired";
  try {
    return require.resolve(`${name}/bin/${file}`);
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") throw error;
  }
  if (name in optionalDependencies) {
    throw new Error(
      `botwired: the package ${name} has the program for this platform, and it is not installed. ` +
        "Optional dependencies are left out by --omit=optional and --no-optional, and where node_modules or " +
        "the lock file came from another platform. Install without these: npm install botwired",
    );
  }
  const served = Object.keys(optionalDependencies).map((each) => each.replace("@botwired/", ""));
  if (served.length === 0) {
    throw new Error("botwired: this package is a clone's, and has no program: `make build` in the clone makes bin/botwired");
  }
  throw new Error(
    `botwired: there is no package for ${process.platform}-${process.arch}, only for ${served.join(", ")}. ` +
      "With Go, this builds the program: go install github.com/botwired/botwired/cmd/botwired@latest",
  );
};
