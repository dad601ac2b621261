import { createHash } from 'node:crypto'
import type { BundleInfo } from '../policy/bundle-info.ts'
import { type BundleFormat, parseBundle } from '../policy/parse.ts'
import type { Problem } from '../policy/problem.ts'
import type { Bundle } from '../policy/schema.ts'

export type IntakeResult =
  | { readonly result: 'applied'; readonly bundle: BundleInfo; readonly policyCount: number; readonly warnings: readonly Problem[] }
  | { readonly result: 'refused'; readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] }
  | { readonly result: 'unchanged' }

/** Makes a bundle the active one everywhere. Throws when it cannot, and then nothing has changed. */
export type Activate = (bundle: Bundle, info: BundleInfo) => Promise<void>

/** Takes bundles from wherever they come, lets the good and newer ones in, and keeps the last good one otherwise. */
export class BundleIntake {
  readonly #activate: Activate
  readonly #wallMs: () => number
  #active: (BundleInfo & { readonly versionNumber: bigint }) | undefined

  constructor(activate: Activate, wallMs: () => number) {
    this.#activate = activate
    this.#wallMs = wallMs
  }

  get active(): BundleInfo | undefined {
    return this.#active
  }

  /** One at a time. */
  async offer(bytes: Uint8Array, format: BundleFormat): Promise<IntakeResult> {
    const hash = createHash('sha256').update(bytes).digest('hex')
    if (hash === this.#active?.hash) return { result: 'unchanged' }
    const text = decodeUtf8(bytes)
    if (text === undefined) return refused('it is not UTF-8 text')
    const parsed = parseBundle(text, format)
    if (!parsed.ok) return { result: 'refused', problems: parsed.problems, warnings: parsed.warnings }
    const { bundle, warnings } = parsed
    const versionNumber = BigInt(bundle.bundle_version)
    if (this.#active !== undefined && versionNumber <= this.#active.versionNumber) {
      return refused(`expected a version above the active one (${this.#active.version}), got ${versionNumber}`, 'bundle_version')
    }
    const info = { version: versionNumber.toString(), hash, updatedAtS: Math.floor(this.#wallMs() / 1000) }
    try {
      await this.#activate(bundle, info)
    } catch (error) {
      return refused((error as Error).message)
    }
    this.#active = { ...info, versionNumber }
    return { result: 'applied', bundle: info, policyCount: bundle.policies.length, warnings }
  }
}

function refused(message: string, path = ''): IntakeResult {
  return { result: 'refused', problems: [{ path, message }], warnings: [] }
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}
