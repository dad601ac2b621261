/*
 * Data that may be invalid: whatever is not there, or is not what it should be, reads as nothing.
 */

export function field(data: unknown, name: string): unknown {
  return isObject(data) ? data[name] : undefined
}

export function listIn(data: unknown, name: string): readonly unknown[] {
  const list = field(data, name)
  return Array.isArray(list) ? list : []
}

export function isObject(data: unknown): data is Record<string, unknown> {
  return typeof data === 'object' && data !== null
}
