import type { OverrideJson } from '../../src/admin/api/types.ts'

/** Describes the change in a few words. */
export function changeText({ multiply, set, unlimited, block, cut_streams: cutsStreams, shadow_all: isShadowAll }: OverrideJson): string {
  if (isShadowAll) return 'Nothing is enforced'
  if (multiply !== undefined) return `${multiply} × the limit`
  if (unlimited) return 'No limit'
  if (block) return cutsStreams ? 'Blocked: 403, open streams are cut' : 'Blocked: 403'
  return Object.entries(set ?? {})
    .map(([field, value]) => `${field} ${value}`)
    .join(', ')
}
