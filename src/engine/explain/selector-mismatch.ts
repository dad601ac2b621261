import { normalizeHost, PathPrefixes } from '../../policy/patterns.ts'
import type { Selector } from '../../policy/schema/selector.ts'
import { encodePathText, normalizePath } from '../../text/path.ts'

export type Mismatch = 'domain' | 'path' | 'except_path' | 'method' | 'host'

/**
 * Returns why a selector does not cover a request, or undefined if it does. This is for explanations only: decisions use the route index, which never
 * visits policies that do not match. Paths, host and method must be normalised.
 */
export function mismatchOf(selector: Selector, path: string, host: string, method: string, exceptedPath = path): Mismatch | undefined {
  if (selector.domain !== undefined) return 'domain'
  if (!coversPath(selector, path)) return 'path'
  if (selector.exceptPaths !== undefined && new PathPrefixes(selector.exceptPaths).cover(exceptedPath)) return 'except_path'
  if (selector.methods !== undefined && !selector.methods.some((one) => one.toUpperCase() === method)) return 'method'
  return selector.hosts === undefined || selector.hosts.some((pattern) => coversHost(pattern, host)) ? undefined : 'host'
}

function coversPath({ pathExact, pathPrefix = '/' }: Selector, path: string): boolean {
  if (pathExact !== undefined) return path === normalizePath(encodePathText(pathExact))
  const prefix = normalizePath(encodePathText(pathPrefix)).replace(/\/$/, '')
  return path.startsWith(prefix) && (path.length === prefix.length || path[prefix.length] === '/')
}

function coversHost(pattern: string, host: string): boolean {
  return pattern.startsWith('*.') ? host.endsWith(`.${normalizeHost(pattern.slice(2))}`) : host === normalizeHost(pattern)
}
