/** What varies from run to run, in the order in which it is replaced. */
const VARYING: readonly (readonly [RegExp, string])[] = [
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, '<time>'],
  [/\b\d\d:\d\d\b/g, '<time of day>'],
  [/\b[0-9a-f]{12}\b/g, '<id>'],
  [/\bedge \d+\.\d+\.\d+/g, 'edge <version>'],
  [/\b\d+ (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?/g, '<duration>'],
]

const ID = /\b[0-9a-f]{12}\b/g

/** What commands print, with times, durations, ids and versions replaced. */
export function shapeOf(printed: string): string {
  return VARYING.reduce((text, [pattern, name]) => text.replace(pattern, name), printed.trimEnd())
}

/** What a page shows of it, for comparing shapes: `…` stands for any rest of a line, and alone on a line for any lines. */
export function shownShape(page: string): RegExp {
  const lines = shapeOf(page)
    .split('\n')
    .map((line) => (line === '…' ? '(?:.*\\n)*?' : `${line.split('…').map(escaped).join('.*')}\\n`))
  return new RegExp(`^${lines.join('')}$`)
}

/** Ids that the page shows, and what they are in this run. */
export function idsOf(page: string, printed: string): (readonly [string, string])[] {
  const real = printed.match(ID) ?? []
  return (page.match(ID) ?? []).flatMap((id, i) => (real[i] === undefined ? [] : [[id, real[i]] as const]))
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}
