// Runs opencode's plugin as opencode does: of each line on standard input it
// calls the hook with input and output, and answers with a line that holds the
// output as the plugin left it, and the prompts that it made meanwhile.
import { createInterface } from "node:readline"
import { pathToFileURL } from "node:url"

const { Decklog } = await import(pathToFileURL(process.argv[2]))
const parents = JSON.parse(process.argv[3]) // of the sessions that the plugin has not seen being made
let prompts = []
let broken = false
const client = {
  session: {
    get: async ({ path }) => ({ data: { id: path.id, parentID: parents[path.id] } }),
    promptAsync: async (prompt) => {
      if (broken) throw new Error("no prompt now")
      prompts.push(prompt)
      return {}
    },
  },
}
const hooks = await Decklog({ client, directory: process.cwd() })
for await (const line of createInterface({ input: process.stdin })) {
  const said = JSON.parse(line)
  if ("broken" in said) broken = said.broken
  const output = said.output ?? {}
  try {
    await hooks[said.hook]?.(said.input ?? {}, output)
  } catch (error) {
    output.thrown = String(error)
  }
  process.stdout.write(JSON.stringify({ output, prompts, hooks: Object.keys(hooks) }) + "\n")
  prompts = []
}
