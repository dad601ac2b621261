import { PROBLEM_CODES, PROBLEM_EVENTS } from '../problems.ts'

/** More lines than this would not be read. */
const MAX_LINES = 30
const MAX_LINE_CHARACTERS = 1000

/** Members of an event that its line in a message does not repeat. */
const SILENT: ReadonlySet<string> = new Set(['level', 'time', 'event', 'msg', 'pid', 'hostname', 'err', 'unlogged', 'mode', 'worker'])

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
  const facts = Object.entries({ ...rest, ...(labels as object) }).filter(([key, value]) => !SILENT.has(key) && isFact(value))
  const text = facts.map(([key, value]) => `${key} ${String(value)}`).join(', ')
  const line = `edge: ${String(msg)} (${String(name)})${text === '' ? '' : `: ${text}`}`
  return escaped(line.replaceAll(/\s+/g, ' ').slice(0, MAX_LINE_CHARACTERS))
}

function isFact(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number'
}

/**
 * Slack takes these three for its own markup, such as `<!channel>`, which calls everybody. A zero-width space keeps the marks of bold and other text from having
 * an effect, because callers choose some of it.
 */
function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll(/[*_~`]/g, '\u200b$&')
}
