import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import type { Problem } from '../text/problem.ts'
import type { Clock } from '../time/clock.ts'
import { FollowedSecret, type SecretChange, type SecretPlaces } from './followed-secret.ts'
import type { SecretUse } from './secret-uses.ts'

/** Secrets by name, as they are sent to workers. */
export type NamedSecrets = ReadonlyMap<string, string>

export interface SecretsParts {
  readonly places: SecretPlaces
  readonly logger: Logger
  readonly metrics: MetricMemory
  readonly clock: Clock
  /** Tells all workers. */
  readonly announce: (secrets: NamedSecrets) => void
  /** Called when all secrets are there of which the last bundle was refused for some. */
  readonly onComplete: () => void
  /** Waits for the first reading of files. */
  readonly pause?: ((ms: number) => Promise<unknown>) | undefined
}

/** A bundle is refused if a file that it is the first to name has not been read after this time. */
const FIRST_READING_MS = 5000

/** The secrets that the active bundle names, on the main thread: reads and follows them, and tells the workers. No value leaves it in any other way. */
export class Secrets {
  readonly #parts: SecretsParts
  readonly #failing: CounterFamily
  readonly #loadedS: CounterFamily
  readonly #followed = new Map<string, FollowedSecret>()
  /** Names in the active bundle. */
  #active: ReadonlySet<string> = new Set()
  /** Names in a bundle that was refused because some of them are missing. */
  #awaited: ReadonlySet<string> = new Set()

  constructor(parts: SecretsParts) {
    this.#parts = parts
    this.#failing = new CounterFamily(parts.metrics, 'edge_secret_failing')
    this.#loadedS = new CounterFamily(parts.metrics, 'edge_secret_loaded_timestamp_seconds')
  }

  /** What a worker must know that starts now. */
  get all(): NamedSecrets {
    return this.#valuesOf(this.#active)
  }

  /** Reads the secrets of a new bundle. Returns why it cannot become active; `onComplete` is called when it can. */
  async problemsOf(uses: readonly SecretUse[]): Promise<Problem[]> {
    const names = new Set(uses.map(({ name }) => name))
    this.#awaited = new Set()
    this.#followOnly(new Set([...this.#active, ...names]))
    const { pause = unobtrusively } = this.#parts
    const added = [...names].filter((name) => !this.#followed.has(name)).map((name) => this.#follow(name))
    if (added.length > 0) await Promise.race([Promise.all(added), pause(FIRST_READING_MS)])
    const problems = uses.flatMap(({ name, path }) => {
      const problem = this.#problemOf(name)
      return problem === undefined ? [] : [{ path, message: `the secret ${name} ${problem}` }]
    })
    if (problems.length > 0) this.#awaited = names
    return problems
  }

  /** Makes a bundle active together with its secrets, of which `problemsOf` has found no problems. If `activate` throws, those of the bundle before stay. */
  async switchTo(uses: readonly SecretUse[], activate: () => Promise<void>): Promise<void> {
    const before = this.#active
    const names = new Set(uses.map(({ name }) => name))
    const added = [...names].filter((name) => !before.has(name))
    // A worker that starts meanwhile gets all of them, too.
    this.#active = new Set([...before, ...names])
    if (added.length > 0) this.#parts.announce(this.#valuesOf(added))
    try {
      await activate()
    } catch (error) {
      this.#active = before
      throw error
    }
    this.#active = names
    this.#followOnly(names)
    for (const name of added) this.#report(this.#followed.get(name)!)
    for (const name of before) if (!names.has(name)) this.#noteLeft(name)
  }

  close(): void {
    this.#followOnly(new Set())
  }

  /** A secret in use has its last good value whatever becomes of its file. */
  #problemOf(name: string): string | undefined {
    const { problem } = this.#followed.get(name)!
    return this.#active.has(name) ? undefined : problem
  }

  #valuesOf(names: Iterable<string>): Map<string, string> {
    return new Map(Array.from(names, (name) => [name, this.#followed.get(name)!.value!]))
  }

  #follow(name: string): Promise<void> {
    const secret = new FollowedSecret(name, this.#parts.places, (read, reading) => this.#noteReading(read, reading))
    this.#followed.set(name, secret)
    return secret.start()
  }

  #followOnly(names: ReadonlySet<string>): void {
    for (const [name, secret] of this.#followed) {
      if (names.has(name)) continue
      secret.stop()
      this.#followed.delete(name)
    }
  }

  #noteReading(secret: FollowedSecret, { hasNewValue }: SecretChange): void {
    const { name, value } = secret
    if (this.#active.has(name)) {
      if (hasNewValue) this.#parts.announce(new Map([[name, value!]]))
      this.#report(secret)
    }
    const isComplete = this.#awaited.has(name) && [...this.#awaited].every((awaited) => this.#problemOf(awaited) === undefined)
    if (!isComplete) return
    this.#awaited = new Set()
    this.#parts.onComplete()
  }

  /** Logs the state of a secret in use, and counts it. */
  #report({ name, place, problem }: FollowedSecret): void {
    const { logger, clock } = this.#parts
    this.#failing.series(name).count = problem === undefined ? 0 : 1
    if (problem === undefined) {
      this.#loadedS.series(name).count = Math.floor(clock.wallMs() / 1000)
      logger.info({ event: 'secret_loaded', secret: name, ...place }, 'secret loaded')
    } else {
      const what = { event: 'secret_failed', secret: name, ...place, problem: `the secret ${name} ${problem}` }
      logger.error(what, 'secret not loaded; its last good value stays in use')
    }
  }

  /** Series stay once they exist. */
  #noteLeft(name: string): void {
    this.#failing.series(name).count = 0
    this.#loadedS.series(name).count = 0
    this.#parts.logger.info({ event: 'secret_dropped', secret: name }, 'the active bundle no longer names this secret')
  }
}

function unobtrusively(ms: number): Promise<void> {
  return sleep(ms, undefined, { ref: false })
}
