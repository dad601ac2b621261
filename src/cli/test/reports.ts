import type { ExplainedPolicyJson, ExplainedRuleJson } from '../../admin/api/types.ts'
import { policyJson } from '../../admin/endpoints/explanation-json.ts'
import type { Allowed, Rejected } from '../../engine/decision.ts'
import { REASONS } from '../../engine/reasons.ts'
import type { FoundCase } from '../../offline/cases/read-cases.ts'
import type { CaseFailure } from '../../offline/cases/run-case.ts'
import type { UnknownCaller } from '../../request/caller.ts'
import { printableText } from '../../text/printable.ts'
import { amountText } from '../admin/counters.ts'
import { MISMATCHES, rejectedText, unknownCallerText, whyNotText } from '../admin/explain-text.ts'
import { countText, listText, printableTexts } from '../text/text-table.ts'

const GREEN = 32
const RED = 31

/** A report for people: a line for each case and, below each that fails, what came instead and why. */
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
      return `\n${this.#paint(`${countText(this.#count, 'case')}: ${this.#count === 1 ? 'it passes' : 'all pass'}`, GREEN)}\n`
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

/** A report for programs, in TAP 14 (testanything.org). */
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

/** Escapes `#`, which would begin a directive, and control characters, which would break the line. */
function description(text: string): string {
  return oneLine(text).replace(/[\\#]/g, '\\$&')
}

/** Returns a YAML block whose values are JSON, so that no text needs YAML's quoting rules. */
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

/** Escapes line ends that JSON leaves as they are, because they would end a line of TAP early. */
function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** How many of the rules and policies that had no effect are named. */
const MAX_NAMED = 5

/** Says what came instead of what was expected and why, for somebody who looks for the mistake in the bundle or in the case. */
function explainFailure(failure: CaseFailure): string[] {
  const { response } = failure
  const { answer } = response
  const { decision } = answer
  const policies = lookedAt(failure)
  if (decision === undefined) return [REASONS[response.reason].meaning, ...whyUnknown(answer.caller)]
  const ruled = policies.find(({ id }) => id === response.policy)?.rules.find(({ name }) => name === response.rule)
  const name = `Rule ${response.rule} of policy ${response.policy}`
  if (decision.action === 'reject') return [`${name} rejects it.`, ...whyRejected(response.reason, ruled), ...waitText(decision)]
  if (response.reason !== 'all_rules_passed') {
    return [`${name} would reject it, but its policy is in shadow mode.`, ...whyRejected(response.reason, ruled)]
  }
  return [closestText(decision), ...idleText(policies, failure.expected.policy)]
}

/** Credentials are not read here: a case says who the caller is. */
function whyUnknown(caller: UnknownCaller | undefined): string[] {
  if (caller === undefined) return []
  return [
    caller.problem === 'no_credential' ? 'The case gives the request neither claims nor a caller.' : unknownCallerText(caller.problem),
  ]
}

function waitText({ wait }: Rejected): string[] {
  if (wait === undefined) return []
  return [`In reverse_proxy it waits for up to ${wait.maxMs / 1000} s before that; requests of a case do not wait.`]
}

function whyRejected(reason: string, rule: ExplainedRuleJson | undefined): string[] {
  return rule === undefined ? [] : [rejectedText(reason, rule)]
}

/** Returns the policies that cover the request, the one that was expected to decide, and a few of the others, near and far. */
function lookedAt({ explanation, expected }: CaseFailure): ExplainedPolicyJson[] {
  const kept: ExplainedPolicyJson[] = []
  const others = { far: 0, near: 0 }
  for (const explained of explanation.policies) {
    const isOther = explained.why !== undefined && explained.policy.id !== expected.policy
    if (isOther && others[isFar(explained.why) ? 'far' : 'near']++ >= MAX_NAMED) continue
    // Values are not replaced by digests, because they are those of the case itself.
    kept.push(printableTexts(policyJson(explained, ([value]) => value!)) as ExplainedPolicyJson)
  }
  return kept
}

/** Whether the policy has nothing to do with requests for this path. */
function isFar(why: ExplainedPolicyJson['why'] | undefined): boolean {
  return why === 'path' || why === 'domain'
}

function closestText({ limit }: Allowed): string {
  if (limit === undefined) return 'It is allowed: no enforcing rule limits it.'
  const { rule, remaining, limitText } = limit
  const kind = rule.counters[0]?.part
  const left = `${amountText(remaining, kind)} of ${amountText(Number(limitText), kind)} left after it`
  return `It is allowed. Closest to its limit is rule ${rule.name} of policy ${rule.policy.id}: ${left}.`
}

/**
 * Says why rules that could have rejected the request did not: first the rules of policies that cover it, then the policies that nearly do.
 * `expected` is the policy that should have rejected it.
 */
function idleText(policies: readonly ExplainedPolicyJson[], expected: string | undefined): string[] {
  const named = policies.filter(({ id }) => id === expected)
  const asked = named.length > 0 ? named : policies
  const idle = asked.flatMap(({ id, rules }) =>
    rules.filter(({ applied }) => !applied).map((rule) => `Rule ${rule.name} of policy ${id} does not apply: ${whyNotText(rule)}.`),
  )
  const others = asked.filter(({ matched }) => !matched).sort((a, b) => Number(isFar(a.why)) - Number(isFar(b.why)))
  const uncovered = others.map(({ id, why }) => `Policy ${id} does not cover it: ${MISMATCHES[why ?? ''] ?? why}.`)
  return [...idle, ...uncovered].slice(0, MAX_NAMED)
}

/** The outcome of one case. */
interface TestOutcome {
  readonly file: string
  readonly found: FoundCase
  /** Undefined if the case holds. */
  readonly failure: CaseFailure | undefined
}

/** Formats outcomes as they come. */
export interface Reporter {
  begin(count: number): string
  describe(outcome: TestOutcome): string
  end(): string
  /** Returns what to print if no case could be run. */
  giveUp(): string
}
