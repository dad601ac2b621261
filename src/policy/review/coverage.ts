import { encodePathText, normalizePath } from '../../text/path.ts'
import { normalizeHost, PathPrefixes } from '../patterns.ts'
import type { Selector } from '../schema/selector.ts'

/** The requests that a selector covers, to be compared with those of other selectors. */
export interface SelectorCoverage {
  readonly path: string
  readonly isExact: boolean
  /** Upper case; undefined if all methods are covered. */
  readonly methods: ReadonlySet<string> | undefined
  /** Normalised, with or without `*.` in front; undefined if all hosts are covered. */
  readonly hosts: ReadonlySet<string> | undefined
  /** Whether it covers a path and, unless the path is exact, what is below it. Exceptions further below are not considered. */
  covers(path: string, isExact: boolean): boolean
}

export function coverageOf({ pathExact, pathPrefix, exceptPaths = [], methods, hosts }: Selector = {}): SelectorCoverage {
  const isExact = pathExact !== undefined
  const given = normalizePath(encodePathText(pathExact ?? pathPrefix ?? '/'))
  // A trailing slash makes no difference to what a prefix covers.
  const path = !isExact && given.length > 1 && given.endsWith('/') ? given.slice(0, -1) : given
  const prefix = new PathPrefixes([path])
  const excepted = new PathPrefixes(exceptPaths)
  return {
    path,
    isExact,
    methods: methods && new Set(methods.map((method) => method.toUpperCase())),
    hosts: hosts && new Set(hosts.map(normalizePattern)),
    covers: (other, isOtherExact) => (isExact ? isOtherExact && other === path : prefix.cover(other)) && !excepted.cover(other),
  }
}

/** Whether a selector with `hosts` also covers this one, which is normalised. A host that is undefined is any host. */
export function coversHost({ hosts }: SelectorCoverage, host: string | undefined): boolean {
  if (hosts === undefined) return true
  if (host === undefined) return false
  if (hosts.has(host)) return true
  for (let dot = host.indexOf('.', host.startsWith('*.') ? 2 : 0); dot >= 0; dot = host.indexOf('.', dot + 1)) {
    if (hosts.has(`*${host.slice(dot)}`)) return true
  }
  return false
}

function normalizePattern(host: string): string {
  return host.startsWith('*.') ? `*.${normalizeHost(host.slice(2))}` : normalizeHost(host)
}
