import { onTestFinished } from 'vitest'
import { type Clock, systemClock } from '../../../src/time/clock.ts'
import type { Edge, EdgeOptions } from '../service/edge.ts'
import { running } from '../service/running.ts'
import { until } from '../until.ts'
import { MortalHost } from './mortal-host.ts'

type LogEntry = Readonly<Record<string, unknown>>

/** The service with its supervisor in this process and so many workers that can be made to die, for as long as the test runs. */
export async function mortalEdge(workers: number, options: EdgeOptions = {}, prepare = (_host: MortalHost) => {}): Promise<MortalEdge> {
  const clock = new ShiftedClock()
  let host: MortalHost | undefined
  onTestFinished(() => host?.terminateAll())
  const edge = await running({
    ...options,
    clock,
    env: { EDGE_WORKERS: String(workers), ...options.env },
    newHost: (env) => {
      // What the workers log goes to the terminal, where nobody reads it.
      host = new MortalHost({ env: { ...env, EDGE_LOG_LEVEL: 'silent' }, flags: {} })
      prepare(host)
      return host
    },
  })
  return new MortalEdge(edge, host!, clock)
}

export class MortalEdge {
  readonly edge: Edge
  readonly host: MortalHost
  readonly #clock: ShiftedClock

  constructor(edge: Edge, host: MortalHost, clock: ShiftedClock) {
    this.edge = edge
    this.host = host
    this.#clock = clock
  }

  get port(): number {
    return this.edge.port
  }

  /** All that the supervisor has said of deaths, and of those who came after. */
  events(name: 'worker_died' | 'worker_replaced'): LogEntry[] {
    return this.edge.log.filter(({ event }) => event === name)
  }

  /** For the supervisor all workers have lived for long, so that it replaces without a pause. */
  age(): void {
    this.#clock.shiftMs += 60_000
  }

  /** For the supervisor no time passes from now on: every life is short, however long it takes a busy machine. */
  stopTime(): void {
    this.#clock.stop()
  }

  async untilReplaced(times = 1): Promise<void> {
    await until(() => this.events('worker_replaced').length >= times)
  }
}

class ShiftedClock implements Clock {
  shiftMs = 0
  #stoppedAtMs: number | undefined

  nowMs(): number {
    return (this.#stoppedAtMs ?? systemClock.nowMs()) + this.shiftMs
  }

  stop(): void {
    this.#stoppedAtMs = systemClock.nowMs()
  }

  wallMs(): number {
    return systemClock.wallMs()
  }
}
