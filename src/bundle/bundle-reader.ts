import { type BundleChanges, bundleChanges, type ComparedBundle } from '../policy/bundle-changes.ts'
import { type NamedLimit, namedLimitsOf } from '../policy/compile.ts'
import { type ExampleRequest, exampleRequest } from '../policy/example-request.ts'
import { locateProblems } from '../policy/locate-problems.ts'
import { type ParsedBundle, parseBundle } from '../policy/parse.ts'
import { contextInProxy, neverApplying } from '../policy/review/absent-values.ts'
import { hostGaps } from '../policy/review/host-gaps.ts'
import { type BlockExpiry, blockExpiriesOf } from '../policy/review/warnings.ts'
import { forwardedTokens, openCredentials } from '../policy/routes/open-credentials.ts'
import { type BackendEntry, backendEntries } from '../policy/routes/planned-backend.ts'
import type { Bundle, BundleFormat } from '../policy/schema/bundle.ts'
import type { Callers, JwtEntry } from '../policy/schema/callers.ts'
import { type SecretUse, secretUsesOf } from '../secrets/secret-uses.ts'
import type { Problem } from '../text/problem.ts'
import { type CredentialSpan, credentialsIn, hasCredentials } from './credentials-in-text.ts'
import { policiesHash } from './policies-hash.ts'
import { policiesOf, pricesOf, routingOf, type SharedBundle, shareBundle } from './shared-bundle.ts'

/** A valid bundle, as it is sent between threads. */
export interface GoodBundle {
  readonly bundle: SharedBundle
  /** Limits of the counters in its plan, in the plan's order. */
  readonly limits: readonly NamedLimit[]
  readonly blockExpiries: readonly BlockExpiry[]
  /** Ids of its policies for the rate limit service. */
  readonly domainPolicies: readonly string[]
  /** Where the key sets of its issuers are. */
  readonly keySetEntries: readonly Pick<JwtEntry, 'name' | 'jwks_url' | 'jwks_file'>[]
  readonly backends: readonly BackendEntry[]
  /** How many routes it has. */
  readonly routeCount: number
  /** The secrets that it names. */
  readonly secretUses: readonly SecretUse[]
  /** A request to try it with; undefined if it covers none. */
  readonly example: ExampleRequest | undefined
  /** Warnings that apply only to `reverse_proxy`. */
  readonly proxyWarnings: readonly Problem[]
  /** Changes since the bundle that was active when this one was read; undefined if there was none. */
  readonly changes: BundleChanges | undefined
  /** Tells bundles apart that decide differently, whatever their versions are. */
  readonly policiesHash: string
  /** Whether it has credentials: its rules or routes match some, or a backend gets one. */
  readonly hasCredentials: boolean
  /** Where its text has these credentials; undefined unless that was asked for. */
  readonly credentials: readonly CredentialSpan[] | undefined
  /** Where its text has a version that is not above that of the active bundle; undefined unless places were asked for. */
  readonly versionPlace: Place | undefined
}

type Place = Pick<Problem, 'line' | 'column'>

export type BundleReading =
  | (GoodBundle & { readonly ok: true; readonly warnings: readonly Problem[] })
  | (BundleProblems & { readonly ok: false })

interface BundleProblems {
  /** Its version, as far as it could be read. */
  readonly version?: string | undefined
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
}

/** `active` is the bundle that the new one is compared with. `wanted`: what is looked for in the text, too. */
export type ReadBundle = (...given: Parameters<typeof readBundle>) => Promise<BundleReading>

/**
 * Checks a bundle and puts it into shared memory. Everything else that parsing allocates, far more than the bundle itself, is dropped. The places of
 * warnings take as long as parsing it once more; those of problems are always looked for.
 */
export function readBundle(
  bytes: Uint8Array,
  format: BundleFormat,
  active?: SharedBundle,
  wanted?: 'credentials' | 'places',
): BundleReading {
  const text = decodeUtf8(bytes)
  if (text === undefined) return { ok: false, problems: [{ path: '', message: 'it is not valid UTF-8' }], warnings: [] }
  const parsed = parseBundle(text, format)
  if (!parsed.ok) return { ok: false, ...located(parsed, text, format) }
  const { bundle } = parsed
  const domainPolicies = bundle.policies.filter(({ spec }) => spec.selector?.domain !== undefined).map(({ id }) => id)
  return {
    ok: true,
    bundle: shareBundle(bundle),
    limits: namedLimitsOf(bundle),
    blockExpiries: blockExpiriesOf(bundle),
    domainPolicies,
    keySetEntries: keySetEntriesOf(bundle),
    backends: backendEntries(bundle.backends),
    routeCount: bundle.routes?.length ?? 0,
    secretUses: secretUsesOf(bundle),
    example: exampleRequest(bundle.policies, bundle.callers),
    changes: active && bundleChanges(comparable(active), bundle),
    policiesHash: policiesHash(bundle),
    hasCredentials: hasCredentials(bundle),
    credentials: wanted === 'credentials' ? credentialsIn(text, format) : undefined,
    ...warningsOf(parsed, wanted === 'places' ? (problems) => locateProblems(problems, text, format) : undefined, active),
  }
}

function comparable(active: SharedBundle): ComparedBundle {
  return { policies: policiesOf(active), prices: pricesOf(active), callers: active.callers, usage: active.usage, ...routingOf(active) }
}

function keySetEntriesOf({ callers }: Bundle & { readonly callers?: Callers | undefined }): GoodBundle['keySetEntries'] {
  return (callers?.jwt ?? []).map(({ name, jwks_url, jwks_file }) => ({ name, jwks_url, jwks_file }))
}

function warningsOf(
  { bundle, warnings }: Extract<ParsedBundle, { ok: true }>,
  locate: ((problems: readonly Problem[]) => readonly Problem[]) | undefined,
  active: SharedBundle | undefined,
): Pick<Extract<BundleReading, { ok: true }>, 'warnings' | 'proxyWarnings' | 'versionPlace'> {
  const ofProxy = [
    ...openCredentials(bundle),
    ...forwardedTokens(bundle),
    ...hostGaps(bundle),
    ...neverApplying(bundle.policies, contextInProxy),
  ]
  const isOld = active !== undefined && BigInt(bundle.bundle_version) <= BigInt(active.version)
  if (locate === undefined || (warnings.length + ofProxy.length === 0 && !isOld))
    return { warnings, proxyWarnings: ofProxy, versionPlace: undefined }
  const all = locate([...warnings, ...ofProxy, { path: 'bundle_version', message: '' }])
  const { line, column } = all.at(-1)!
  return { warnings: all.slice(0, warnings.length), proxyWarnings: all.slice(warnings.length, -1), versionPlace: { line, column } as Place }
}

function located(
  { version, problems, warnings }: Extract<ParsedBundle, { ok: false }>,
  text: string,
  format: BundleFormat,
): BundleProblems {
  const all = locateProblems([...problems, ...warnings], text, format)
  return { version, problems: all.slice(0, problems.length), warnings: all.slice(problems.length) }
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}
