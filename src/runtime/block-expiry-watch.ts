import type { Logger } from 'pino'
import type { BlockExpiry } from '../policy/block-expiries.ts'

const LOOK_MS = 1000

/** Says so once for each block of the active bundle that has expired, at load or later. */
export class BlockExpiryWatch {
  readonly #logger: Logger
  readonly #wallMs: () => number
  #pending: readonly BlockExpiry[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(logger: Logger, wallMs: () => number) {
    this.#logger = logger
    this.#wallMs = wallMs
  }

  /** Those of the bundle that is active from now on. */
  watch(expiries: readonly BlockExpiry[]): void {
    this.stop()
    this.#pending = expiries
    this.#look()
    // Not one timer until the next: the wall clock may be set.
    if (this.#pending.length > 0) this.#timer = setInterval(() => this.#look(), LOOK_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #look(): void {
    const wallMs = this.#wallMs()
    for (const { policy, rule, expiresAt, expiresAtMs } of this.#pending) {
      if (expiresAtMs > wallMs) continue
      const what = { event: 'block_expired', policy, rule, expires_at: expiresAt }
      this.#logger.warn(what, 'a block has expired and covers nobody: remove it from the bundle')
    }
    this.#pending = this.#pending.filter(({ expiresAtMs }) => expiresAtMs > wallMs)
    if (this.#pending.length === 0) this.stop()
  }
}
