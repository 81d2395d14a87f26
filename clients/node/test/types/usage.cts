import botwired = require("../../index.js");

const memory: botwired.Memory = new botwired.Memory("my-agent");
export const kept: Promise<botwired.Written> = memory.set("k", { a: [1, null] }, { ifVersion: botwired.ABSENT });
