import { createHash, type KeyObject } from 'node:crypto'
import type { BundleChanges } from '../policy/bundle-changes.ts'
import type { BundleInfo } from '../policy/plan.ts'
import type { Problem } from '../text/problem.ts'
import type { BundleHistory } from './bundle-history.ts'
import type { GoodBundle, ReadBundle } from './bundle-reader.ts'
import type { AppliedBundle, OfferedBundle } from './bundle-source.ts'
import type { SharedBundle } from './shared-bundle.ts'
import { signatureProblem } from './signature.ts'

export type IntakeResult =
  | { readonly result: 'applied'; readonly bundle: BundleInfo; readonly policyCount: number; readonly warnings: readonly Problem[] }
  | RefusedBundle
  | { readonly result: 'unchanged' }

export interface RefusedBundle {
  readonly result: 'refused'
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
  /** Undefined where its bytes are not known. */
  readonly hash?: string
  /** Its version, as far as it could be read. */
  readonly version?: string | undefined
  /** Whether the bundle was refused unparsed because of its signature, so that another signature could make it acceptable. */
  readonly lacksSignature?: boolean
}

/** Makes a bundle the active one everywhere. If it throws, nothing has changed. */
export type Activate = (bundle: GoodBundle, info: BundleInfo) => Promise<void>

/** The bundle that was active before, and what the active one changed. */
export interface BundleUpdate {
  readonly previous: AppliedBundle
  readonly changes: BundleChanges
}

/** Takes bundles from any source, activates good and newer ones, and otherwise keeps the last good one. */
export class BundleIntake {
  readonly #activate: Activate
  readonly #wallMs: () => number
  readonly #publicKeys: readonly KeyObject[]
  readonly #read: ReadBundle
  #active: { readonly info: AppliedBundle; readonly versionNumber: bigint; readonly bundle: SharedBundle } | undefined
  #lastUpdate: BundleUpdate | undefined
  #offered: Promise<unknown> = Promise.resolve()
  readonly #history: BundleHistory | undefined

  /** If there are public keys, only bundles signed with one of them are accepted. */
  constructor(
    activate: Activate,
    wallMs: () => number,
    publicKeys: readonly KeyObject[] = [],
    read: ReadBundle = readHere,
    history?: BundleHistory,
  ) {
    this.#history = history
    this.#activate = activate
    this.#wallMs = wallMs
    this.#publicKeys = publicKeys
    this.#read = read
  }

  get active(): AppliedBundle | undefined {
    return this.#active?.info
  }

  /** Undefined until a second bundle has become active. */
  get lastUpdate(): BundleUpdate | undefined {
    return this.#lastUpdate
  }

  /** Checks the signature of a bundle that is otherwise known to be good. */
  hasValidSignature({ bytes, signature }: OfferedBundle): boolean {
    return this.#signatureProblem(bytes, signature) === undefined
  }

  /** Resolves when the last offered bundle is active or refused. */
  get offered(): Promise<unknown> {
    return this.#offered
  }

  /** Only one bundle may be offered at a time: callers wait for the result before they offer the next one. */
  offer(bundle: OfferedBundle): Promise<IntakeResult> {
    const taken = this.#take(bundle)
    this.#offered = taken
    return taken
  }

  async #take(offered: OfferedBundle): Promise<IntakeResult> {
    const hash = createHash('sha256').update(offered.bytes).digest('hex')
    if (hash === this.active?.hash) return { result: 'unchanged' }
    const taken = await this.#takeNew(offered, hash)
    return taken.result === 'refused' ? { ...taken, hash } : taken
  }

  async #takeNew({ bytes, format, signature }: OfferedBundle, hash: string): Promise<IntakeResult> {
    // The signature is checked first, because unsigned bytes are not worth parsing.
    const problem = this.#signatureProblem(bytes, signature)
    if (problem !== undefined) return { ...refused(problem), lacksSignature: true }
    const read = await this.#read(bytes, format, this.#active?.bundle, 'places')
    if (!read.ok) return { result: 'refused', problems: read.problems, warnings: read.warnings, version: read.version }
    const { bundle, warnings } = read
    const versionNumber = BigInt(bundle.version)
    if (this.#active !== undefined && versionNumber <= this.#active.versionNumber) {
      const expected = `expected a version above the active one (${this.#active.info.version}), got ${versionNumber}`
      const wayOut = 'To go back, publish the old policies under a higher version: edge rollback'
      const problem = { path: 'bundle_version', message: `${expected}. ${wayOut}`, ...read.versionPlace }
      return { result: 'refused', problems: [problem], warnings: [], version: versionNumber.toString() }
    }
    const info = { version: versionNumber.toString(), hash, updatedAtS: Math.floor(this.#wallMs() / 1000) }
    try {
      await this.#activate(read, info)
    } catch (error) {
      return refused((error as Error).message)
    }
    if (read.changes !== undefined) this.#lastUpdate = { previous: this.#active!.info, changes: read.changes }
    const applied = { ...info, policyCount: bundle.policyCount }
    this.#active = { info: applied, versionNumber, bundle }
    this.#history?.note({ bytes, format, signature }, applied, read)
    return { result: 'applied', bundle: info, policyCount: bundle.policyCount, warnings }
  }

  #signatureProblem(bytes: Uint8Array, signature: string | undefined): string | undefined {
    return this.#publicKeys.length === 0 ? undefined : signatureProblem(bytes, signature, this.#publicKeys)
  }
}

export function refused(message: string): RefusedBundle {
  return { result: 'refused', problems: [{ path: '', message }], warnings: [] }
}

/** Reads the bundle on this thread. */
export const readHere: ReadBundle = async (...given) => {
  // The schema library takes a while to load, and by now workers are starting in parallel.
  const { readBundle } = await import('./bundle-reader.ts')
  return readBundle(...given)
}

/** Adds the warnings that matter only for `reverse_proxy`. */
export function withProxyWarnings(read: ReadBundle = readHere): ReadBundle {
  return async (...given) => {
    const reading = await read(...given)
    return reading.ok ? { ...reading, warnings: [...reading.warnings, ...reading.proxyWarnings] } : reading
  }
}
