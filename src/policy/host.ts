/** A host as it is compared: lower case, without port, brackets or a trailing dot. Empty when nothing is left. */
export function normalizeHost(host: string): string {
  if (isPlain(host)) return host
  const name = host.trim().toLowerCase()
  if (name.startsWith('[')) {
    const close = name.indexOf(']')
    return close < 0 ? '' : name.slice(1, close)
  }
  const colon = name.indexOf(':')
  const withoutPort = colon >= 0 && colon === name.lastIndexOf(':') ? name.slice(0, colon) : name
  return withoutPort.endsWith('.') ? withoutPort.slice(0, -1) : withoutPort
}

function isPlain(host: string): boolean {
  for (let i = 0; i < host.length; i++) {
    const code = host.charCodeAt(i)
    const isLetterOrDigit = (code >= 0x61 && code <= 0x7a) || (code >= 0x30 && code <= 0x39)
    if (!isLetterOrDigit && code !== 0x2d && code !== 0x2e) return false
  }
  return host.charCodeAt(host.length - 1) !== 0x2e
}

/** `example.com`, `*.example.com`, `[::1]`, each with or without a port. */
export function isHostPattern(text: string): boolean {
  if (text.startsWith('[')) return /^\[[0-9A-Fa-f:.]+\](:\d{1,5})?$/.test(text)
  const name = /^(?:\*\.)?([^:]+)(?::\d{1,5})?$/.exec(text)?.[1]
  if (name === undefined || name.length > 253) return false
  return normalizeHost(name)
    .split('.')
    .every((part) => /^[a-z0-9_-]{1,63}$/.test(part))
}
