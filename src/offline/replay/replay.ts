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

/** Indexes into the time series: all requests, and those that each bundle rejects or would reject. */
export const REQUESTS = 0
export const rejectedSeries = (bundle: number): number => 1 + 2 * bundle
export const wouldRejectSeries = (bundle: number): number => 2 + 2 * bundle

/** Decides requests by one or two bundles side by side, with a clock that the requests' own times move. */
export class Replay {
  readonly bundles: readonly ReplayedBundle[]
  requests = 0
  /** Requests that are older than one before them. They are decided at the time of the latest one so far. */
  outOfOrder = 0
  firstMs = Number.POSITIVE_INFINITY
  lastMs = Number.NEGATIVE_INFINITY
  /** One for each bundle; empty before the first request, which sets the clock. */
  replays: readonly BundleReplay[] = []
  /** Undefined if there is only one bundle. */
  readonly difference: Difference | undefined
  readonly series: TimeSeries
  readonly #options: ReplayOptions
  /** A key for this run only, so that nobody can find out whose digest is in a report by trying credentials. */
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

  /** Returns a promise only if a body must be read. */
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
