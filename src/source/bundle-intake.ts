import { createHash } from 'node:crypto'
import type { BundleInfo } from '../policy/bundle-info.ts'
import { compileBundle } from '../policy/compile.ts'
import { type BundleFormat, parseBundle } from '../policy/parse.ts'
import type { Plan } from '../policy/plan.ts'
import type { Problem } from '../policy/problem.ts'

export type IntakeResult =
  | { readonly result: 'applied'; readonly bundle: BundleInfo; readonly policyCount: number; readonly warnings: readonly Problem[] }
  | { readonly result: 'refused'; readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] }
  | { readonly result: 'unchanged' }

/** Takes bundles from wherever they come, lets the good and newer ones in, and keeps the last good one otherwise. */
export class BundleIntake {
  readonly #activate: (plan: Plan) => void
  readonly #wallMs: () => number
  #active: (BundleInfo & { readonly versionNumber: bigint }) | undefined

  constructor(activate: (plan: Plan) => void, wallMs: () => number) {
    this.#activate = activate
    this.#wallMs = wallMs
  }

  get active(): BundleInfo | undefined {
    return this.#active
  }

  offer(bytes: Uint8Array, format: BundleFormat): IntakeResult {
    const hash = createHash('sha256').update(bytes).digest('hex')
    if (hash === this.#active?.hash) return { result: 'unchanged' }
    const text = decodeUtf8(bytes)
    if (text === undefined) return refused('it is not UTF-8 text')
    const parsed = parseBundle(text, format)
    if (!parsed.ok) return { result: 'refused', problems: parsed.problems, warnings: parsed.warnings }
    const plan = compileBundle(parsed.bundle)
    if (this.#active !== undefined && plan.version <= this.#active.versionNumber) {
      return refused(`expected a version above the active one (${this.#active.version}), got ${plan.version}`, 'bundle_version')
    }
    this.#activate(plan)
    const updatedAtS = Math.floor(this.#wallMs() / 1000)
    this.#active = { version: plan.version.toString(), versionNumber: plan.version, hash, updatedAtS }
    return { result: 'applied', bundle: this.#active, policyCount: plan.policies.length, warnings: parsed.warnings }
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
