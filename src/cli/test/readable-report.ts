import { printableText } from '../../printable-text.ts'
import { countText } from '../admin/amounts.ts'
import { listText } from '../admin/table.ts'
import { explainFailure } from './failure-text.ts'
import type { Reporter, TestOutcome } from './outcome.ts'

const GREEN = 32
const RED = 31

/** For people: a line for each case, and below each that fails what came instead and why. */
export class ReadableReport implements Reporter {
  readonly #hasColours: boolean
  #file: string | undefined
  #failed = 0
  #count = 0

  constructor(hasColours: boolean) {
    this.#hasColours = hasColours
  }

  begin(): string {
    return ''
  }

  describe(outcome: TestOutcome): string {
    const { file, found, failure } = outcome
    this.#count++
    if (failure !== undefined) this.#failed++
    const verdict = failure === undefined ? this.#paint('ok  ', GREEN) : this.#paint('FAIL', RED)
    const line = `  ${verdict}  ${printableText(found.name)}\n`
    return `${this.#heading(file)}${line}${failure === undefined ? '' : failureText(outcome)}`
  }

  end(): string {
    if (this.#failed === 0)
      return `\n${this.#paint(`${countText(this.#count, 'case')}: ${this.#count === 1 ? 'it holds' : 'all hold'}`, GREEN)}\n`
    return `\n${this.#paint(`${this.#failed} of ${countText(this.#count, 'case')} ${this.#failed === 1 ? 'fails' : 'fail'}`, RED)}\n`
  }

  giveUp(): string {
    return ''
  }

  #heading(file: string): string {
    if (file === this.#file) return ''
    const isFirst = this.#file === undefined
    this.#file = file
    return `${isFirst ? '' : '\n'}${printableText(file)}\n`
  }

  #paint(text: string, colour: number): string {
    return this.#hasColours ? `\x1b[${colour}m${text}\x1b[0m` : text
  }
}

const INDENT = '        '

function failureText({ file, found, failure }: TestOutcome): string {
  const { step, request, times, asked, atMs, mismatches } = failure!
  const which = times === 1 ? '' : `, request ${request} of ${times}`
  const place = found.line === undefined ? '' : ` (case at ${file}:${found.line})`
  const rows = mismatches.map(({ what, expected, got }): [string, string] => [what, `expected ${expected}, got ${got}`])
  const lines = [
    `step ${step}${which}: ${asked.method} ${asked.uri} at ${new Date(atMs).toISOString()}${place}`,
    ...explainFailure(failure!),
  ].map(printableText)
  const [head, ...why] = lines
  const table = listText(
    rows.map(([what, text]) => [printableText(what), printableText(text)]),
    `${INDENT}  `,
  )
  return `${INDENT}${head}\n${table}${why.map((line) => `${INDENT}  ${line}\n`).join('')}`
}
