import { explainFailure } from './failure-text.ts'
import type { Reporter, TestOutcome } from './outcome.ts'

/** TAP 14 (testanything.org), for programs. */
export class TapReport implements Reporter {
  #count = 0

  begin(count: number): string {
    return `TAP version 14\n1..${count}\n`
  }

  describe(outcome: TestOutcome): string {
    const { file, found, failure } = outcome
    const point = `${++this.#count} - ${description(`${file}: ${found.name}`)}\n`
    return failure === undefined ? `ok ${point}` : `not ok ${point}${diagnostics(outcome)}`
  }

  end(): string {
    return ''
  }

  giveUp(): string {
    return 'TAP version 14\nBail out! the bundle or the cases cannot be used, see standard error\n'
  }
}

/** `#` would begin a directive, and a line has no control characters. */
function description(text: string): string {
  return oneLine(text).replace(/[\\#]/g, '\\$&')
}

/** A block of YAML, in its JSON form, which needs no thought about what a text looks like. */
function diagnostics({ file, found, failure }: TestOutcome): string {
  const { step, request, times, asked, atMs, mismatches, response } = failure!
  const { status, reason, policy, rule } = response
  const members = {
    message: explainFailure(failure!).join(' '),
    severity: 'fail',
    at: { file, line: found.line },
    step,
    request: { number: request, of: times, method: asked.method, uri: asked.uri, time: new Date(atMs).toISOString() },
    mismatches,
    response: { status, reason, policy, rule },
  }
  const lines = Object.entries(members).map(([name, value]) => `  ${name}: ${oneLine(JSON.stringify(value))}\n`)
  return `  ---\n${lines.join('')}  ...\n`
}

/** Line ends that JSON leaves as they are would end a line of TAP too early. */
function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
