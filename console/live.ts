import { batch, effect, type ReadonlySignal, signal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import { ApiFailure, ask, Unreachable } from './api.ts'
import { isVisible } from './clock.ts'
import { isLost } from './connection.ts'
import { csrfToken } from './session.ts'

/** Interval at which changing figures are polled. */
export const LIVE_MS = 2000
/** A view that is opened again shows these results at once, until newer ones arrive. */
const KEPT_RESULTS = 24
const kept = new Map<string, unknown>()

/**
 * Polls one path of the admin API while the page is visible, somebody is logged in and edge responds. The last result stays. While the connection is
 * lost, only `reconnecting.ts` asks; all others continue as soon as edge responds.
 */
export class Poll<Result> {
  readonly #path: string
  readonly #everyMs: number
  readonly #read: Read<Result>
  readonly #data
  readonly #failure = signal<ApiFailure | undefined>(undefined)
  #timer: ReturnType<typeof setTimeout> | undefined
  #asking: Promise<void> | undefined
  #isRunning = false

  constructor(path: string, everyMs: number, read: Read<Result> = () => ask('GET', path)) {
    this.#path = path
    this.#everyMs = everyMs
    this.#read = read
    this.#data = signal(kept.get(path) as Result | undefined)
  }

  /** The last response; undefined before the first. */
  get data(): ReadonlySignal<Result | undefined> {
    return this.#data
  }

  /** Why there is nothing newer, if the API refused. */
  get failure(): ReadonlySignal<ApiFailure | undefined> {
    return this.#failure
  }

  /** Returns a function that stops the polling. */
  start(): () => void {
    this.#isRunning = true
    const dispose = effect(() => {
      clearTimeout(this.#timer)
      if (isVisible.value && !isLost.value && csrfToken.value) void this.refresh()
    })
    return () => {
      this.#isRunning = false
      clearTimeout(this.#timer)
      dispose()
    }
  }

  /** Asks now, for example after a change that the response must show. */
  async refresh(): Promise<void> {
    // The result of a request that is already under way may be older than the change.
    await this.#asking
    this.#asking ??= this.#ask()
    await this.#asking
  }

  async #ask(): Promise<void> {
    clearTimeout(this.#timer)
    try {
      const data = await this.#read(this.#data.peek())
      keep(this.#path, data)
      batch(() => {
        this.#data.value = data
        this.#failure.value = undefined
      })
    } catch (error) {
      if (error instanceof ApiFailure) this.#failure.value = error
      else if (!(error instanceof Unreachable)) throw error
    } finally {
      this.#asking = undefined
      if (this.#isRunning && isVisible.peek() && !isLost.peek() && csrfToken.peek()) {
        this.#timer = setTimeout(() => void this.refresh(), this.#everyMs)
      }
    }
  }
}

/** Asks for what is new, and adds it to what is known. */
export type Read<Result> = (known: Result | undefined) => Promise<Result>

/** Polls a path for as long as the component is shown. `read` is needed if a response contains only what is new. */
export function usePoll<Result>(path: string, everyMs: number = LIVE_MS, read?: Read<Result>): Poll<Result> {
  const poll = useMemo(() => new Poll<Result>(path, everyMs, read), [path, everyMs, read])
  useEffect(() => poll.start(), [poll])
  return poll
}

export function forgetResults(): void {
  kept.clear()
}

function keep(path: string, data: unknown): void {
  kept.delete(path)
  kept.set(path, data)
  if (kept.size > KEPT_RESULTS) kept.delete(kept.keys().next().value!)
}
