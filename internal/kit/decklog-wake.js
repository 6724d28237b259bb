// decklog's listener for opencode, which `decklog install opencode --wake` puts
// here for who asked to have idle sessions woken. When a session is idle it runs
// `decklog wake opencode`, which waits until somebody waits for the session and
// then exits with 2 and one line; the line starts a turn, and decklog's other
// plugin brings the mail with it. It decides nothing itself.
//
// Whatever goes wrong, opencode goes on.

import { spawn } from "node:child_process"

const WAKES = 2
const LINE_BYTES_MAX = 2000

export const DecklogWake = async ({ client, directory }) => {
  if ((process.env.DECKLOG ?? "").toLowerCase() === "off") return {}
  if (process.argv.includes("run")) return {} // it ends with its turn

  const listeners = new Map() // the program that listens for a session
  const turns = new Map() // a session's last agent and model
  const below = new Set() // sessions of subagents: their parents' are woken

  const wake = async (session, text) => {
    const { agent, model } = turns.get(session) ?? {}
    await client.session.promptAsync({ path: { id: session }, body: { agent, model, parts: [{ type: "text", text, synthetic: true }] } })
  }

  const listen = (session) => {
    if (listeners.has(session)) return
    const program = spawn("decklog", ["wake", "opencode"], { stdio: ["pipe", "ignore", "pipe"] })
    listeners.set(session, program)
    let said = ""
    program.stderr.on("data", (bytes) => {
      said = (said + bytes).slice(-LINE_BYTES_MAX)
    })
    program.on("error", () => listeners.delete(session))
    program.on("close", (code) => {
      listeners.delete(session)
      if (code === WAKES && said.trim()) wake(session, said.trim()).catch(() => {})
    })
    program.stdin.on("error", () => {})
    program.stdin.end(JSON.stringify({ hook_event_name: "session.idle", session_id: session, cwd: directory }))
  }

  const forget = (session) => {
    listeners.get(session)?.kill()
    for (const kept of [listeners, turns, below]) kept.delete(session)
  }

  return {
    event: async ({ event }) => {
      try {
        const { info, sessionID = info?.id } = event.properties ?? {}
        if (event.type === "session.created" && info?.parentID) below.add(info.id)
        if (event.type === "session.idle" && !below.has(sessionID)) listen(sessionID)
        if (event.type === "session.deleted") forget(sessionID)
      } catch {
        // opencode goes on
      }
    },
    "chat.message": async ({ sessionID }, { message }) => {
      turns.set(sessionID, { agent: message.agent, model: message.model })
    },
    dispose: async () => [...listeners.keys()].forEach(forget),
  }
}
