import { claimedCaller } from '../../callers/claimed-caller.ts'
import type { Usage } from '../../costs/cost.ts'
import type { RequestExplanation } from '../../decide/request-explanation.ts'
import { headerValue } from '../../http1/header-fields.ts'
import { tokenCounts } from '../../llm/usage.ts'
import type { Plan } from '../../policy/plan.ts'
import type { CallerVerdict } from '../../request/caller.ts'
import { dateTimeMs } from '../../text/formats.ts'
import { encodePathText } from '../../text/path.ts'
import type { SimulatedRequest } from '../simulation/simulated-doors.ts'
import type { SimulatedResponse, Simulation } from '../simulation/simulation.ts'
import { type Case, durationMs, type Expectation, type Step, timesOf } from './case-schema.ts'

/** The first step of a case whose responses are not as expected. Later steps are not run, because they would depend on it. */
export interface CaseFailure {
  /** Number of the step, from 1. */
  readonly step: number
  /** Number of the request within the step, from 1; `times` is how many there are. */
  readonly request: number
  readonly times: number
  readonly asked: SimulatedRequest
  readonly atMs: number
  readonly response: SimulatedResponse
  readonly expected: Expectation
  readonly mismatches: readonly CaseMismatch[]
  /** Explanation made right after the response, when an allowed request has already taken from its counters. */
  readonly explanation: RequestExplanation
}

/** Runs the steps one after the other. `newSimulation` returns one with full counters and its clock at the given time. */
export async function runCase({ at, steps }: Case, newSimulation: (startMs: number) => Simulation): Promise<CaseFailure | undefined> {
  const simulation = newSimulation(dateTimeMs(at))
  for (const [i, step] of steps.entries()) {
    simulation.moveTo(simulation.nowMs + durationMs(step.after)!)
    const failure = await runStep(simulation, step)
    if (failure !== undefined) return { ...failure, step: i + 1 }
  }
  return undefined
}

async function runStep(simulation: Simulation, step: Step): Promise<Omit<CaseFailure, 'step'> | undefined> {
  const times = timesOf(step)
  const asked = askedRequest(step, simulation.plan)
  const { expect = {} } = step
  const atMs = simulation.nowMs
  const statuses: number[] = []
  let wrong: Pick<CaseFailure, 'request' | 'response' | 'explanation'> | undefined
  let last: SimulatedResponse | undefined
  for (let request = 1; request <= times; request++) {
    const response = await simulation.decide(asked, atMs)
    statuses.push(response.status)
    if (request === times) last = response
    if (wrong !== undefined || response.status === (expectedStatus(expect, request) ?? response.status)) continue
    wrong = { request, response, explanation: await simulation.explain(asked) }
  }
  const backends = expect.backend === undefined ? [] : await backendsOf(simulation, asked, last!)
  const mismatches = lastMismatches(expect, last!, simulation.plan, backends)
  if (wrong !== undefined) mismatches.unshift(statusMismatch(expect.status!, statuses))
  if (mismatches.length === 0) return undefined
  wrong ??= { request: times, response: last!, explanation: await simulation.explain(asked) }
  return { ...wrong, times, asked, atMs, expected: expect, mismatches }
}

/** Returns the names of the backends that the request may have been sent to first. */
async function backendsOf(simulation: Simulation, asked: SimulatedRequest, { answer }: SimulatedResponse): Promise<string[]> {
  if (answer.decision?.action !== 'allow') return []
  const { route } = await simulation.explain(asked)
  return route?.candidates.filter(({ share }) => share > 0).map(({ name }) => name) ?? []
}

function expectedStatus({ status }: Expectation, request: number): number | undefined {
  return Array.isArray(status) ? status[request - 1] : status
}

/** Returns the request of a step as a client sends it. A Host field becomes the request's host. */
function askedRequest({ request, usage }: Pick<Step, 'request' | 'usage'>, plan: Plan): SimulatedRequest {
  const { method, uri, body } = request
  let { host } = request
  const fields: string[] = []
  for (const [name, value] of Object.entries(request.headers)) {
    for (const line of [value].flat()) {
      // Clients send UTF-8, which the engine sees as a latin1 string.
      const text = Buffer.from(String(line).trim()).toString('latin1')
      if (name.toLowerCase() === 'host' && host === undefined) host = text
      else fields.push(name, text)
    }
  }
  if (request.claims !== undefined) fields.push('authorization', bearerField(request.claims))
  const caller = callerOf(request, plan)
  return { method, uri: encodePathText(uri), host, fields, body, caller, usage: usage && usageOf(usage) }
}

/** Returns the caller that a step names, or that `callers.jwt` makes of its claims; undefined if the request's own fields say who it is. */
function callerOf({ claims, caller }: Step['request'], { callers }: Plan): CallerVerdict | undefined {
  if (caller !== undefined) return { id: caller.id, labels: new Map(Object.entries(caller.labels)), claims: undefined }
  return claims !== undefined && callers?.verifiesTokens === true ? claimedCaller(callers.source, claims) : undefined
}

/** An unsecured JWT (RFC 7519 6): rules read the claims, and leave checking signatures to the gateway or the backend. */
function bearerField(claims: Readonly<Record<string, unknown>>): string {
  const [header, payload] = [{ alg: 'none' }, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
  return `Bearer ${header}.${payload}.`
}

function usageOf({ cost, ...usage }: NonNullable<Step['usage']>): Usage {
  const { prompt_tokens: input, completion_tokens: output } = usage
  if (input === undefined && output === undefined) return { tokens: undefined, cost, isStreamed: false }
  const { cached_tokens: cachedInput = 0, cache_write_tokens: cacheWrite = 0, cache_write_1h_tokens: cacheWrite1h = 0 } = usage
  return { tokens: tokenCounts(input ?? 0, output ?? 0, { cachedInput, cacheWrite, cacheWrite1h }), cost, isStreamed: false }
}

/** A difference between a response and what was expected. */
interface CaseMismatch {
  /** `status`, `reason`, `policy`, `rule`, `backend`, `waits`, or the name of a header field. */
  readonly what: string
  readonly expected: string
  readonly got: string
}

const NONE = 'none'

function statusMismatch(expected: number | readonly number[], got: readonly number[]): CaseMismatch {
  const all = typeof expected === 'number' ? [expected] : expected
  return { what: 'status', expected: runsText(all), got: runsText(typeof expected === 'number' && isUniform(got) ? got.slice(0, 1) : got) }
}

/** Compares the last response with what was expected, apart from its status. */
function lastMismatches(
  { reason, policy, rule, backend, waits, headers = {} }: Expectation,
  response: SimulatedResponse,
  plan: Plan,
  backends: readonly string[],
): CaseMismatch[] {
  const found: CaseMismatch[] = []
  const compare = (what: string, expected: string | undefined, got: string | undefined, note = ''): void => {
    if (expected !== undefined && expected !== got) found.push({ what, expected: `${expected}${note}`, got: got ?? NONE })
  }
  const named = policy === undefined ? undefined : plan.policiesById.get(policy)
  compare('reason', reason, response.reason)
  compare('policy', policy, response.policy, named === undefined ? ' (the bundle has no such policy)' : '')
  compare(
    'rule',
    rule,
    response.rule,
    named?.rules.some(({ name }) => name === rule) === false ? ` (policy ${policy} has no such rule)` : '',
  )
  if (backend === null) compare('backend', NONE, backends.join(' or ') || NONE)
  else if (backend !== undefined && !backends.includes(backend)) {
    const isKnown = plan.routing?.backends.has(backend) === true
    compare('backend', backend, backends.join(' or ') || NONE, isKnown ? '' : ' (the bundle has no such backend)')
  }
  const { decision } = response.answer
  compare('waits', waits === undefined ? undefined : String(waits), String(decision?.action === 'reject' && decision.wait !== undefined))
  for (const [name, value] of Object.entries(headers)) {
    const got = headerValue(response.headers, name.toLowerCase())
    if (value === null) compare(name, NONE, got ?? NONE)
    else compare(name, String(value), got)
  }
  return found
}

/** Formats statuses such as `200 ×5, 429`. */
function runsText(statuses: readonly number[]): string {
  const runs: string[] = []
  for (let from = 0; from < statuses.length; ) {
    let to = from
    while (to < statuses.length && statuses[to] === statuses[from]) to++
    runs.push(to - from === 1 ? `${statuses[from]}` : `${statuses[from]} ×${to - from}`)
    from = to
  }
  if (runs.length > MAX_RUNS) runs.splice(MAX_RUNS, runs.length, `… (${statuses.length} in all)`)
  return runs.join(', ')
}

const MAX_RUNS = 20

function isUniform(statuses: readonly number[]): boolean {
  return statuses.every((status) => status === statuses[0])
}
