// The agent of a new user of the npm package: it remembers a value, or reads it back.
const url = `${process.env.BOTWIRE_URL}/memory/demo/greeting`;
if (process.argv[2] === "remember") {
  const stored = await fetch(url, {
    method: "PUT",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ value: "hello" }),
  });
  if (!stored.ok) throw new Error(await stored.text());
}
console.log((await (await fetch(url)).json()).value);
