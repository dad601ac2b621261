/** One line of the text exposition format that carries a value. */
export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"/
// Values are read as Go's ParseFloat reads them: NaN and Inf in any case.
const SAMPLE = new RegExp(`^([a-zA-Z_:][\\w:]*)(?:\\{((?:${LABEL.source},?)*)\\})? (NaN|[+-]?Inf|[-+\\d.e]+)$`, 'i')

/** Reads every sample of a scrape. A line that is neither a sample nor a comment is an error. */
export function readSamples(text: string): Sample[] {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return lines.map((line) => {
    const match = SAMPLE.exec(line)
    if (match === null) throw new Error(`not in the text exposition format: ${line}`)
    const labels = [...(match[2] ?? '').matchAll(new RegExp(LABEL, 'g'))].map(([, name, value]) => [name!, unescapeLabel(value!)])
    return { name: match[1]!, labels: Object.fromEntries(labels), value: Number(match.at(-1)) }
  })
}

function unescapeLabel(value: string): string {
  return value.replace(/\\(["\\n])/g, (_, char: string) => (char === 'n' ? '\n' : char))
}
