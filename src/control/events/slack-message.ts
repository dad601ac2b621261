import { printableText } from '../../text/printable.ts'
import { PROBLEM_CODES, PROBLEM_EVENTS } from '../problems.ts'

/** More lines than this would not be read. Together they stay below the 40,000 characters of which Slack cuts off the rest. */
const MAX_LINES = 30
const MAX_LINE_CHARACTERS = 1000

/** Members of an event that its line in a message does not repeat. */
const SILENT: ReadonlySet<string> = new Set(['level', 'time', 'event', 'msg', 'pid', 'hostname', 'err', 'unlogged', 'worker'])

/** Events that are logged only when a problem is over. Others that end one, such as `bundle_applied`, are logged without any. */
const END = /_(?:again|resumed|available|shared|replaced)$/

/** Whether people should hear of an event in a chat: budgets that are nearly spent, and problems and their ends. Requests and the like would flood it. */
export function isForChat(name: string): boolean {
  return name === 'budget_warning' || PROBLEM_CODES.has(name) || (PROBLEM_EVENTS.has(name) && END.test(name))
}

/** Returns the body of a message to an incoming webhook of Slack, with a line for each event. */
export function slackBody(events: readonly string[]): string {
  const shown = events.slice(0, MAX_LINES).map(lineOf)
  const more = events.length - shown.length
  const lines = more > 0 ? [...shown, `and ${more} more`] : shown
  return JSON.stringify({ text: lines.join('\n') })
}

function lineOf(event: string): string {
  const { event: name, msg = '', labels = {}, ...rest } = JSON.parse(event) as Record<string, unknown>
  const facts = Object.entries({ ...rest, ...(labels as object) }).filter(([key, value]) => isFact(key, value))
  const text = facts.map(([key, value]) => `${key} ${String(value)}`).join(', ')
  const line = `edge: ${String(msg)} (${String(name)})${text === '' ? '' : `: ${text}`}`
  return escaped(printableText(line.replaceAll(/\s+/g, ' ').slice(0, MAX_LINE_CHARACTERS + 1)))
}

/** That a policy is in force need not be said. */
function isFact(key: string, value: unknown): boolean {
  if (SILENT.has(key) || (key === 'mode' && value === 'enforce')) return false
  return typeof value === 'string' || typeof value === 'number'
}

/** Goes unseen, and keeps what follows from having an effect. */
const BREAK = '\u200b'
/** What Slack takes for its own markup, such as `<!channel>`, which calls everybody; marks of bold and other text; and what begins a link. */
const MARKUP = /[&<>*_~`]|:\/\/|www\./gi
const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' }

/** Escapes a line, because callers choose some of it, and cuts it between two characters if it is too long then. */
function escaped(text: string): string {
  const parts = text.replaceAll(MARKUP, (mark) => `\0${mark}\0`).split('\0')
  let line = ''
  for (const [i, part] of parts.entries()) {
    // Every other part is markup.
    for (const piece of i % 2 === 0 ? part : [markText(part)]) {
      if (line.length + piece.length > MAX_LINE_CHARACTERS) return `${line}…`
      line += piece
    }
  }
  return line
}

function markText(mark: string): string {
  return ENTITIES[mark] ?? (mark.length === 1 ? BREAK + mark : mark[0] + BREAK + mark.slice(1))
}
