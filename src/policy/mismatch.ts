import { normalizeHost } from './host.ts'
import { encodePathText, normalizePath } from './path.ts'
import { PathPrefixes } from './path-prefixes.ts'
import type { Selector } from './schema.ts'

export type Mismatch = 'domain' | 'path' | 'except_path' | 'method' | 'host'

/**
 * Why a selector does not cover a request; undefined where it does. For explanations: decisions use the route index, which never visits
 * policies that do not match. Paths, host and method are normalised.
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
