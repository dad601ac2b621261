import { AttemptPlan } from '../../../src/proxy/backends/attempt-plan.ts'
import { type BackendAttempt, BackendHealth, type BackendState } from '../../../src/proxy/backends/backend-health.ts'
import { BackendSlots, forgetBackends, newBackendsBuffer } from '../../../src/proxy/backends/backend-slots.ts'
import { Random } from '../random/random.ts'

export interface PoolChoice {
  readonly backend: { readonly name: string; readonly url: URL; readonly hasCredential: boolean }
  readonly weight: number
  readonly model: string | undefined
}

export interface PoolRoute {
  readonly group: readonly PoolChoice[]
  readonly fallback: readonly PoolChoice[]
  readonly retry: { attempts: number; connect: boolean; timeout: boolean; handles(status: number): boolean }
}

/** Backends whose calls have a credential of our own, unless their name says `open`. */
function poolBackend(name: string): PoolChoice['backend'] {
  return { name, url: new URL(`https://${name}.example`), hasCredential: !name.startsWith('open') }
}

/** `a`, `a*3` for a weight, `a:model` for a model that replaces the client's. */
function poolChoice(text: string): PoolChoice {
  const [, name, weight = '1', model] = /^([\w-]+)(?:\*(\d+))?(?::(.+))?$/.exec(text)!
  return { backend: poolBackend(name!), weight: Number(weight), model }
}

export function poolRoute(group: string, fallback = '', retry: Partial<PoolRoute['retry']> = {}): PoolRoute {
  const choices = (text: string): PoolChoice[] => text.split(' ').filter(Boolean).map(poolChoice)
  return {
    group: choices(group),
    fallback: choices(fallback),
    retry: { attempts: 1, connect: true, timeout: true, handles: (status) => status === 429 || status >= 500, ...retry },
  }
}

interface PoolWorker {
  readonly slots: ReadonlyMap<string, number>
  readonly health: BackendHealth
}

/** Several workers on one shared memory, with a clock that the test moves. */
export class BackendPool {
  nowMs = 1_000_000
  readonly random = new Random(1)
  readonly buffer: SharedArrayBuffer
  names: readonly string[]
  readonly #workers: PoolWorker[] = []

  constructor(names: string, workers = 2) {
    this.buffer = newBackendsBuffer(workers)
    this.names = names.split(' ')
    for (let worker = 0; worker < workers; worker++) this.#workers.push(this.#start(worker))
  }

  get workers(): number {
    return this.#workers.length
  }

  health(worker = 0): BackendHealth {
    return this.#workers[worker]!.health
  }

  backend(name: string): PoolChoice['backend'] {
    return poolBackend(name)
  }

  slot(name: string): number {
    return this.#workers[0]!.slots.get(name)!
  }

  plan(
    route: PoolRoute,
    { worker = 0, model = 'm', stickTo }: { worker?: number; model?: string; stickTo?: string } = {},
  ): AttemptPlan<PoolChoice> {
    const { health, slots } = this.#workers[worker]!
    return new AttemptPlan(route, { health, slots, clock: this.#clock, random: () => this.random.next() }, model, stickTo)
  }

  /** A call that begins now, without a plan. */
  attempt(name: string, change: Partial<BackendAttempt> = {}): BackendAttempt {
    const { hasCredential } = poolBackend(name)
    return { slot: this.slot(name), model: 'm', hasCredential, canCool: true, startedAtMs: this.nowMs, probe: 0, ...change }
  }

  /** How long the backend still cools for this model. */
  coolsForMs(name: string, model = 'm', worker = 0): number {
    return Math.max(this.health(worker).coolingUntil(this.slot(name), model) - this.nowMs, 0)
  }

  state(name: string, worker = 0): BackendState {
    return this.health(worker).statesOf([poolBackend(name)])[0]!
  }

  /** Ends the worker without a word, as a crash does, and starts another in its place. */
  kill(worker: number): void {
    forgetBackends(this.buffer, worker + 1)
    this.#workers[worker] = this.#start(worker)
  }

  /** Activates a bundle with these backends in all workers. */
  replace(names: readonly string[]): void {
    this.names = names
    for (const [worker, { health }] of this.#workers.entries()) this.#workers[worker] = { health, slots: this.#claim(worker) }
  }

  #claim(worker: number): ReadonlyMap<string, number> {
    return new BackendSlots(this.buffer, worker + 1).claim(this.names.map(poolBackend), this.nowMs)
  }

  #start(worker: number): PoolWorker {
    const slots = new BackendSlots(this.buffer, worker + 1)
    const health = new BackendHealth({ slots, clock: this.#clock, worker: worker + 1, hashKey: [1, 2] })
    return { slots: this.#claim(worker), health }
  }

  get #clock(): { nowMs(): number } {
    return { nowMs: () => this.nowMs }
  }
}
