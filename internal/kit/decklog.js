// decklog's plugin for opencode. It tells `decklog-hook opencode` what happens to
// a session, and does what it is answered: it adds mail to a prompt or to a
// tool's output, lets a session go on whose turn ended while somebody waits for
// it, and says who calls one of decklog's tools. It decides nothing itself.
//
// Whatever goes wrong, opencode goes on: nothing is thrown, and nothing waits
// for ever. What went wrong is told by `decklog doctor`.

import { spawn } from "node:child_process"

const PROGRAM = "decklog-hook"
const ANSWER_MS = 10_000 // for a run of the program, which gives up by itself earlier
const HANDLER_MS = 15_000 // for all that is done about one event

const text = (value) => (typeof value === "string" ? value : "")

// ask runs the hook with one input. Its answer is empty when there is nothing to
// do, or when anything is wrong.
const ask = (input) =>
  new Promise((resolve) => {
    const printed = []
    const done = () => {
      clearTimeout(timer)
      try {
        const answer = JSON.parse(Buffer.concat(printed).toString("utf8")) ?? {}
        resolve({ part: text(answer.part), output: text(answer.output), prompt: text(answer.prompt), args: answer.args })
      } catch {
        resolve({})
      }
    }
    let program
    const timer = setTimeout(() => {
      program?.kill()
      done()
    }, ANSWER_MS)
    try {
      program = spawn(PROGRAM, ["opencode"], { stdio: ["pipe", "pipe", "ignore"] })
      program.on("error", done)
      program.on("close", done)
      program.stdout.on("data", (bytes) => printed.push(bytes))
      program.stdin.on("error", () => {})
      program.stdin.end(JSON.stringify(input))
    } catch {
      done()
    }
  })

// safe makes a handler that neither throws nor hangs.
const safe =
  (handler) =>
  async (...args) => {
    let timer
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, HANDLER_MS)
    })
    try {
      await Promise.race([handler(...args), late])
    } catch {
      // opencode goes on
    } finally {
      clearTimeout(timer)
    }
  }

export const Decklog = async ({ client, directory }) => {
  if ((process.env.DECKLOG ?? "").toLowerCase() === "off") return {}

  const parents = new Map() // a session's parent; empty: it has none
  const told = new Set() // the sessions that decklog was told of
  const turns = new Map() // a session's turn: its agent and model, whether it was held, whether it was answered
  const holding = new Set() // the sessions whose next prompt is ours
  const unsaid = new Map() // what a session was to be told and was not
  const tails = new Map() // the last thing that a session's hook is asked

  // A command that runs once ends with its turn: to go on would come too late.
  const once = process.argv.includes("run")

  const parentOf = async (id) => {
    if (!parents.has(id)) {
      const { data } = await client.session.get({ path: { id } })
      parents.set(id, data?.parentID ?? "")
    }
    return parents.get(id)
  }

  // rootOf is the session that a person talks to. A subagent has a session of its
  // own below it.
  const rootOf = async (id) => {
    for (let parent; (parent = await parentOf(id)); ) id = parent
    return id
  }

  // tell asks the hook about an event of a session, one event after the other. Of
  // a subagent it is told only who calls decklog's tools.
  const tell = async (event, session, more) => {
    const root = await rootOf(session)
    const input = { hook_event_name: event, session_id: root, cwd: directory, ...more }
    if (root !== session) {
      if (event !== "tool.execute.before") return {}
      input.agent_id = session
    }
    const asked = (tails.get(root) ?? Promise.resolve()).then(() => ask(input))
    tails.set(root, asked)
    return asked
  }

  // goOn lets an idle session start a turn with this text, as its last turn was.
  const goOn = async (session, prompt) => {
    const { agent, model } = turns.get(session)
    const body = { agent, model, parts: [{ type: "text", text: prompt, synthetic: true }] }
    holding.add(session)
    try {
      const { error } = await client.session.promptAsync({ path: { id: session }, body })
      if (!error) return
    } catch {
      // it was not said
    }
    holding.delete(session)
    unsaid.set(session, prompt)
  }

  const idle = async (session) => {
    const turn = turns.get(session)
    // Of a turn that somebody broke off, nothing more is said than that it is idle.
    const completed = turn?.answered && !once
    if (turn) turn.answered = false // one turn may be told of twice
    const { prompt } = await tell("session.idle", session, {
      stop_hook_active: turn?.held ?? false,
      status: completed ? "completed" : "unknown",
    })
    if (prompt) await goOn(session, prompt)
  }

  return {
    event: safe(async ({ event }) => {
      const { info, sessionID = info?.id } = event.properties ?? {}
      switch (event.type) {
        case "session.created":
          parents.set(info.id, info.parentID ?? "")
          told.add(info.id)
          await tell(event.type, info.id, { source: "startup" })
          break
        case "session.compacted":
          await tell(event.type, sessionID, { source: "compact" })
          break
        case "message.updated":
          if (info?.role === "assistant" && turns.has(info.sessionID))
            turns.get(info.sessionID).answered = !info.error && Boolean(info.finish) && info.finish !== "tool-calls"
          break
        case "session.idle":
          await idle(sessionID)
          break
        case "session.deleted":
          if (told.has(sessionID)) await tell(event.type, sessionID, { reason: "other" })
          for (const kept of [told, turns, holding, unsaid, tails]) kept.delete(sessionID)
          break
      }
    }),

    "chat.message": safe(async ({ sessionID }, { message, parts }) => {
      turns.set(sessionID, { agent: message.agent, model: message.model, held: holding.delete(sessionID), answered: false })
      told.add(sessionID)
      const { part } = await tell("chat.message", sessionID)
      const mail = [unsaid.get(sessionID), part].filter(Boolean).join("\n\n")
      unsaid.delete(sessionID)
      if (!mail) return
      const last = parts.at(-1)?.id ?? "prt_decklog" + Date.now() // parts stand in the order of their ids
      parts.push({ id: last + "0", sessionID, messageID: message.id, type: "text", text: mail, synthetic: true })
    }),

    "tool.execute.before": safe(async ({ tool, sessionID, callID }, { args }) => {
      if (!tool.startsWith("decklog_")) return
      const answer = await tell("tool.execute.before", sessionID, { tool_name: tool, tool_input: args, tool_use_id: callID })
      if (answer.args) Object.assign(args, answer.args)
    }),

    "tool.execute.after": safe(async ({ tool, sessionID }, result) => {
      // What an MCP tool gave is another kind of result, and cut to a size later.
      if (typeof result?.output !== "string") return
      const { output } = await tell("tool.execute.after", sessionID, { tool_name: tool })
      if (!output) return
      result.output += "\n\n" + output
      result.metadata = { ...result.metadata, decklog: output } // so that it can be told from what the tool said
    }),

    "shell.env": safe(async ({ sessionID }, { env }) => {
      if (sessionID) env.DECKLOG_SESSION = await rootOf(sessionID)
    }),

    dispose: safe(async () => {
      await Promise.all([...told].map((session) => tell("dispose", session, { reason: "other" })))
    }),
  }
}
