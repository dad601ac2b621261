import { ApiError } from '../admin/api/api-error.ts'
import type {
  BundleComparisonJson,
  BundleJson,
  BundleListJson,
  BundleReportJson,
  BundleSourceJson,
  PastBundleJson,
  RefusedBundleJson,
} from '../admin/api/instance-types.ts'
import { type BundleTextAsk, type PastBundleText, TOO_MANY_TEXTS } from '../admin/endpoints/bundle-endpoints.ts'
import type { BundleHistory, PastBundle } from '../bundle/bundle-history.ts'
import type { BundleUpdate } from '../bundle/bundle-intake.ts'
import type { AppliedBundle, Refusal, SourceStatus } from '../bundle/bundle-source.ts'
import type { ControlHandlers } from './control-calls.ts'

export interface BundleReportsParts {
  readonly intake: { readonly active: AppliedBundle | undefined; readonly lastUpdate: BundleUpdate | undefined }
  /** Undefined if no source was configured. */
  readonly source: () => SourceStatus | undefined
  /** Whether only signed bundles are accepted. */
  readonly isSignatureRequired: boolean
  /** Undefined without a token for operators, and then nobody asks. */
  readonly history: BundleHistory | undefined
}

type BundleCalls = Pick<ControlHandlers, 'bundle' | 'bundles' | 'bundle_text' | 'bundle_changes'>

/** What operators ask about bundles: the active one, those before it, and what differs between them. */
export function bundleCalls(parts: BundleReportsParts): BundleCalls {
  const history = parts.history!
  return {
    bundle: () => JSON.stringify(bundleJson(parts)),
    bundles: () => {
      const list: BundleListJson = { bundles: history.list().map(pastJson) }
      return JSON.stringify(list)
    },
    bundle_text: (ask) => textOf(history, ask),
    bundle_changes: async ({ version, from = history.before(version) }) => {
      if (from === undefined) throw notKept(history, version, 'the bundle before it is not known: expected from=VERSION')
      const changes = await history.changes(from, version)
      if (changes === 'busy') throw tooMany()
      if (changes === undefined) throw notKept(history, history.list().some((one) => one.version === from) ? version : from)
      const comparison: BundleComparisonJson = { from, to: version, changes }
      return JSON.stringify(comparison)
    },
  }
}

/** The active bundle, the one before it and what changed between them, and the source that is asked for the next one. */
function bundleJson({ intake: { active, lastUpdate }, source, isSignatureRequired }: BundleReportsParts): BundleReportJson {
  const status = source()
  return {
    bundle: active === undefined ? null : appliedJson(active),
    source: status === undefined ? null : sourceJson(status, isSignatureRequired),
    previous: lastUpdate === undefined ? null : appliedJson(lastUpdate.previous),
    changes: lastUpdate?.changes ?? null,
  }
}

/** Also part of the status. */
export function appliedJson({ version, hash, updatedAtS, policyCount }: AppliedBundle): BundleJson {
  return { version, hash, applied_at: new Date(updatedAtS * 1000).toISOString(), policies: policyCount }
}

function sourceJson({ location, isCached, looks, problem, refusal }: SourceStatus, isSignatureRequired: boolean): BundleSourceJson {
  return {
    path: 'path' in location ? location.path : null,
    url: 'url' in location ? location.url : null,
    cached: isCached,
    signature_required: isSignatureRequired,
    looks: looks ?? null,
    problem: problem ?? null,
    refused: refusal === undefined ? null : refusedJson(refusal),
  }
}

function refusedJson({ version, hash, problems, problemsInAll }: Refusal): RefusedBundleJson {
  return { version: version ?? null, hash: hash ?? null, problems, problems_in_all: problemsInAll }
}

function pastJson(bundle: PastBundle): PastBundleJson {
  const { format, byteLength, isSigned, warningCount, warnings, policiesHash, hasCredentials, hasText, changes } = bundle
  const common = {
    format,
    bytes: byteLength,
    signed: isSigned,
    warnings: warningCount,
    warning_texts: warnings,
    policies_hash: policiesHash,
  }
  return { ...appliedJson(bundle), ...common, has_credentials: hasCredentials, has_text: hasText, changes: changes ?? null }
}

async function textOf(history: BundleHistory, { version, isClear }: BundleTextAsk): Promise<PastBundleText> {
  const found = await history.text(version, isClear ? undefined : 'credentials')
  if (found === 'busy') throw tooMany()
  if (found === undefined) throw notKept(history, version)
  const { bundle, text, credentials } = found
  return { members: JSON.stringify(pastJson(bundle)), text, hasCredentials: bundle.hasCredentials, credentials }
}

function tooMany(): ApiError {
  return new ApiError('too_many_readers', TOO_MANY_TEXTS)
}

function notKept(history: BundleHistory, version: string, known = 'its text is not kept any more'): ApiError {
  const kept = history.list().map((one) => one.version)
  if (kept.includes(version)) return new ApiError('unknown_bundle', `bundle ${version}: ${known}`)
  const expected = kept.length === 0 ? 'no bundle was active yet' : `this instance has ${kept.join(', ')}`
  return new ApiError('unknown_bundle', `there is no bundle ${version} among the last ten: ${expected}`)
}
