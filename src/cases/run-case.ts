import type { RequestExplanation } from '../decide/request-explanation.ts'
import { dateTimeMs } from '../policy/date-time.ts'
import type { SimulatedRequest } from '../simulation/simulated-door.ts'
import type { SimulatedResponse, Simulation } from '../simulation/simulation.ts'
import { askedRequest } from './asked-request.ts'
import type { Case, Expectation, Step } from './case-schema.ts'
import { durationMs } from './duration.ts'
import { type CaseMismatch, lastMismatches, statusMismatch } from './mismatch.ts'
import { timesOf } from './step-times.ts'

/** The first step of a case whose responses are not as expected. What comes after it follows from it. */
export interface CaseFailure {
  /** From 1. */
  readonly step: number
  /** Which of the step's requests, from 1, and how many there are. */
  readonly request: number
  readonly times: number
  readonly asked: SimulatedRequest
  readonly atMs: number
  readonly response: SimulatedResponse
  readonly expected: Expectation
  readonly mismatches: readonly CaseMismatch[]
  /** Made right after the response: an allowed request has taken by then. */
  readonly explanation: RequestExplanation
}

/** Runs the steps one after the other. `newSimulation` has full counters, and its clock is at the time that it is given. */
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
  const asked = askedRequest(step)
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
  const mismatches = lastMismatches(expect, last!, simulation.plan)
  if (wrong !== undefined) mismatches.unshift(statusMismatch(expect.status!, statuses))
  if (mismatches.length === 0) return undefined
  wrong ??= { request: times, response: last!, explanation: await simulation.explain(asked) }
  return { ...wrong, times, asked, atMs, expected: expect, mismatches }
}

function expectedStatus({ status }: Expectation, request: number): number | undefined {
  return Array.isArray(status) ? status[request - 1] : status
}
