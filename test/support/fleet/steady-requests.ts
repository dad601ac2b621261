import { setTimeout as sleep } from 'node:timers/promises'
import { answersBy, hasRedis } from '../redis/sharing-edge.ts'
import type { Edge, OriginalRequest } from '../service/edge.ts'
import { type Owner, thisTest } from '../service/running.ts'
import { until } from '../until.ts'
import { Admissions } from './admissions.ts'

/** As often as each instance is asked. */
const PAUSE_MS = 4

/** Questions for as long as the test runs, or until they are stopped. */
export function steadyRequests(edges: readonly Edge[], request: OriginalRequest = {}, owner: Owner = thisTest): SteadyRequests {
  const steady = new SteadyRequests(edges, request)
  owner.onTestFinished(() => steady.stop())
  return steady
}

/** Each instance is asked one question after the other, until told to stop. */
export class SteadyRequests {
  readonly statuses = new Map<number, number>()
  /** What each instance let through. */
  readonly byEdge: readonly Admissions[]
  #isOver = false
  readonly #lanes: Promise<unknown>

  constructor(edges: readonly Edge[], request: OriginalRequest) {
    this.byEdge = edges.map(() => new Admissions())
    this.#lanes = Promise.all(edges.map((edge, i) => this.#run(edge, request, this.byEdge[i]!)))
  }

  /** What all of them let through. */
  get admissions() {
    return this.byEdge.flatMap(({ all }) => all)
  }

  /** Waits until each instance has said no, and not just once. */
  untilUsedUp(): Promise<void> {
    return until(() => this.byEdge.every(({ rejected }) => rejected > 10))
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await this.#lanes
  }

  async #run(edge: Edge, request: OriginalRequest, admissions: Admissions): Promise<void> {
    while (!this.#isOver) {
      const { status } = await admissions.asking(() => edge.decide(request))
      this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1)
      await sleep(PAUSE_MS)
    }
  }
}

/** All circuits are closed, and what is asked from then on is answered by Redis. Needs somebody who asks. */
export async function untilAnsweredByRedis(edges: readonly Edge[]): Promise<void> {
  for (const edge of edges) {
    await until(() => hasRedis(edge))
    const { redis } = await answersBy(edge)
    await until(async () => (await answersBy(edge)).redis > redis + 5)
  }
}
