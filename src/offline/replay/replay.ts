import { randomBytes } from 'node:crypto'
import { CallerDigester } from '../../store/caller-digester.ts'
import type { SimulatedSettings } from '../simulation/simulated-settings.ts'
import { BundleReplay, type ReplayedBundle } from './bundle-replay.ts'
import { Difference } from './counts.ts'
import type { LoggedRequest } from './logs/logged-request.ts'
import { TimeSeries } from './time-series.ts'

export interface ReplayOptions {
  readonly mode: 'decision_service' | 'reverse_proxy'
  readonly settings: SimulatedSettings
}

/** Places in the time series: all requests, and what each bundle rejects, or would. */
export const REQUESTS = 0
export const rejectedSeries = (bundle: number): number => 1 + 2 * bundle
export const wouldRejectSeries = (bundle: number): number => 2 + 2 * bundle

/** Requests through one or two bundles side by side, by a clock that their own times move. */
export class Replay {
  readonly bundles: readonly ReplayedBundle[]
  requests = 0
  /** Requests that are older than the one before them. They are decided at the time of that one. */
  outOfOrder = 0
  firstMs = Number.POSITIVE_INFINITY
  lastMs = Number.NEGATIVE_INFINITY
  /** One for each bundle; none before the first request, which sets the clock. */
  replays: readonly BundleReplay[] = []
  /** Undefined with one bundle. */
  readonly difference: Difference | undefined
  readonly series: TimeSeries
  readonly #options: ReplayOptions
  /** Of this run alone: nobody can try credentials to find out whose digest is in a report. */
  readonly #hashKey: readonly [number, number]
  readonly #digest: CallerDigester

  constructor(bundles: readonly ReplayedBundle[], options: ReplayOptions) {
    this.bundles = bundles
    this.#options = options
    const key = randomBytes(8)
    this.#hashKey = [key.readInt32LE(0), key.readInt32LE(4)]
    this.#digest = new CallerDigester(this.#hashKey)
    this.difference = bundles.length > 1 ? new Difference(this.#hashKey, this.#callerDigest) : undefined
    this.series = new TimeSeries(1 + 2 * bundles.length)
  }

  /** Returns at once unless a body must be read. */
  add(request: LoggedRequest): void | Promise<void> {
    if (this.requests === 0) this.#begin(request.timeMs)
    this.requests++
    const { timeMs } = request
    if (timeMs < this.lastMs) this.outOfOrder++
    else this.lastMs = timeMs
    if (timeMs < this.firstMs) this.firstMs = timeMs
    this.series.add(REQUESTS, this.lastMs)
    const first = this.#decide(0, request)
    if (first !== undefined) return first.then(() => this.#addSecond(request))
    return this.#addSecond(request)
  }

  readonly #callerDigest = (values: readonly string[]): string => this.#digest.of(values)

  #begin(startMs: number): void {
    const { mode, settings } = this.#options
    this.replays = this.bundles.map((bundle) => new BundleReplay(bundle, { ...settings, mode, startMs }, this.#hashKey, this.#callerDigest))
  }

  #addSecond(request: LoggedRequest): void | Promise<void> {
    if (this.difference === undefined) return
    const second = this.#decide(1, request)
    if (second !== undefined) return second.then(() => this.#compare())
    this.#compare()
  }

  #decide(index: number, request: LoggedRequest): void | Promise<void> {
    const decided = this.replays[index]!.decide(request, this.lastMs)
    if (decided !== undefined) return decided.then(() => this.#note(index))
    this.#note(index)
  }

  #note(index: number): void {
    const { action, isWouldReject } = this.replays[index]!
    if (action === 'reject') this.series.add(rejectedSeries(index), this.lastMs)
    else if (isWouldReject) this.series.add(wouldRejectSeries(index), this.lastMs)
  }

  #compare(): void {
    const [a, b] = this.replays as readonly [BundleReplay, BundleReplay]
    if (a.action === b.action) return
    if (a.action === 'allow' && b.action === 'reject') this.difference!.newlyReject(b)
    else if (a.action === 'reject' && b.action === 'allow') this.difference!.newlyAllow(a)
  }
}
