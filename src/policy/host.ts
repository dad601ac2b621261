const MAX_HOST_CHARACTERS = 253

/** A host in the form that is compared: lower case, without port, brackets or a trailing dot. Empty if it is not a host name. */
export function normalizeHost(host: string): string {
  if (isPlain(host)) return host
  const name = host.trim().toLowerCase()
  const address = /^\[([0-9a-f:.]+)\](?::\d*)?$/.exec(name)?.[1] ?? name
  if (IPV6.test(address)) return address
  const bare = name.replace(/\.?(?::\d*)?$/, '')
  return isPlain(bare) ? bare : ''
}

// An approximation: `::` or seven colons make an address; a name with two ports is none.
const IPV6 = /^(?=.*::|(?:[^:]*:){7}[^:]*$)[0-9a-f:.]{2,45}$/

/** Letters, digits, `-` and `_` in labels that are not empty. */
function isPlain(host: string): boolean {
  if (host.length > MAX_HOST_CHARACTERS) return false
  let isLabelStart = true
  for (let i = 0; i < host.length; i++) {
    const code = host.charCodeAt(i)
    const isInLabel = (code >= 0x61 && code <= 0x7a) || (code >= 0x30 && code <= 0x39) || code === 0x2d || code === 0x5f
    if (!isInLabel && (code !== 0x2e || isLabelStart)) return false
    isLabelStart = !isInLabel
  }
  return !isLabelStart
}

/** `example.com`, `*.example.com`, `[::1]`, each with or without a port. */
export function isHostPattern(text: string): boolean {
  if (text.startsWith('[')) return /^\[[0-9A-Fa-f:.]+\](:\d{1,5})?$/.test(text)
  const name = /^(?:\*\.)?([^:]+)(?::\d{1,5})?$/.exec(text)?.[1]
  if (name === undefined || name.length > MAX_HOST_CHARACTERS) return false
  return normalizeHost(name)
    .split('.')
    .every((part) => /^[a-z0-9_-]{1,63}$/.test(part))
}
