import { load } from 'js-yaml'

export interface TapPoint {
  readonly isOk: boolean
  readonly description: string
  /** Of the YAML block, if there is one. */
  readonly diagnostics: Readonly<Record<string, unknown>> | undefined
}

/** Reads TAP 14 (testanything.org/tap-version-14-specification.html) as strictly as it can be read: anything unexpected throws. */
export function parseTap(text: string): TapPoint[] {
  if (!text.endsWith('\n')) throw new Error('the last line has no end')
  const lines = text.slice(0, -1).split('\n')
  if (lines.shift() !== 'TAP version 14') throw new Error('the first line is not the version')
  const plan = /^1\.\.(\d+)$/.exec(lines.shift() ?? '')
  if (plan === null) throw new Error('the second line is not a plan')
  const points: TapPoint[] = []
  while (lines.length > 0) {
    const line = lines.shift()!
    const [, not, number, description] = /^(not )?ok (\d+) - (.*)$/.exec(line) ?? []
    if (description === undefined) throw new Error(`not a test point: ${JSON.stringify(line)}`)
    if (Number(number) !== points.length + 1) throw new Error(`test point ${points.length + 1} has the number ${number}`)
    // An unescaped # begins a directive.
    const plain = /^(?:[^\\#]|\\[\\#])*$/.test(description)
    if (!plain) throw new Error(`a directive, or a backslash before nothing: ${JSON.stringify(description)}`)
    const diagnostics = lines[0] === '  ---' ? takeYaml(lines) : undefined
    points.push({ isOk: not === undefined, description: description.replace(/\\([\\#])/g, '$1'), diagnostics })
  }
  if (points.length !== Number(plan[1])) throw new Error(`${plan[1]} planned, ${points.length} there`)
  return points
}

function takeYaml(lines: string[]): Readonly<Record<string, unknown>> {
  lines.shift()
  const end = lines.indexOf('  ...')
  if (end < 0) throw new Error('a YAML block has no end')
  const block = lines.splice(0, end + 1).slice(0, -1)
  if (!block.every((line) => line.startsWith('  '))) throw new Error('a line of a YAML block is not indented')
  return load(block.map((line) => line.slice(2)).join('\n')) as Readonly<Record<string, unknown>>
}
