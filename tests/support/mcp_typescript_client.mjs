// A client made with the official SDK for TypeScript, as desktop programs are: `node FILE SDK SERVER`, with the folder
// of the SDK and a server's configuration in JSON. Prints the names of the tools, a result, and a refusal, as JSON.
import { join } from "node:path";

const [sdk, configuration] = process.argv.slice(2);
const { Client } = await import(join(sdk, "dist/esm/client/index.js"));
const { StdioClientTransport } = await import(join(sdk, "dist/esm/client/stdio.js"));

const client = new Client({ name: "desktop", version: "1" });
await client.connect(new StdioClientTransport({ ...JSON.parse(configuration), stderr: "ignore" }));
const { tools } = await client.listTools();
const rate = await client.callTool({ name: "rate", arguments: { pair: "EURUSD" } });
const refused = await client.callTool({ name: "wire_money", arguments: { to: "bob", amount: 5 } });
console.log(JSON.stringify([tools.map((tool) => tool.name), rate.structuredContent, refused.isError]));
await client.close();
