import type { BundleJson, BundleReportJson, BundleSourceJson } from '../../admin/api/instance-types.ts'
import type { AppliedBundle, BundleUpdate } from '../../bundle/bundle-intake.ts'
import type { SourceStatus } from '../../bundle/bundle-source.ts'

export interface BundleParts {
  readonly active: AppliedBundle | undefined
  readonly lastUpdate: BundleUpdate | undefined
  /** Undefined where no source was named. */
  readonly source: SourceStatus | undefined
}

/** The active bundle, the one before it and what changed between them, and the source that is asked for the next one. */
export function bundleJson({ active, lastUpdate, source }: BundleParts): BundleReportJson {
  return {
    bundle: active === undefined ? null : appliedJson(active),
    source: source === undefined ? null : sourceJson(source),
    previous: lastUpdate === undefined ? null : appliedJson(lastUpdate.previous),
    changes: lastUpdate?.changes ?? null,
  }
}

/** As the status has it, too. */
export function appliedJson({ version, hash, updatedAtS, policyCount }: AppliedBundle): BundleJson {
  return { version, hash, applied_at: new Date(updatedAtS * 1000).toISOString(), policies: policyCount }
}

function sourceJson({ place, isCached, problem, refusal }: SourceStatus): BundleSourceJson {
  return {
    path: 'path' in place ? place.path : null,
    url: 'url' in place ? place.url : null,
    cached: isCached,
    problem: problem ?? null,
    refused: refusal === undefined ? null : { problems: refusal.problems, problems_in_all: refusal.problemsInAll },
  }
}
