/** Whether If-None-Match names what would be sent (RFC 9110 13.1.2). */
export function hasTag(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false
  return ifNoneMatch.split(',').some((part) => part.trim() === '*' || strong(part.trim()) === strong(tag))
}

/** Whether Accept-Encoding names gzip and does not exclude it (RFC 9110 12.5.3). */
export function acceptsGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined) return false
  return acceptEncoding.split(',').some((part) => {
    const [coding, weight] = part.split(';', 2)
    return coding!.trim().toLowerCase() === 'gzip' && !isZero(weight)
  })
}

function strong(tag: string): string {
  return tag.startsWith('W/') ? tag.slice(2) : tag
}

function isZero(weight: string | undefined): boolean {
  const [name, value] = (weight ?? '').split('=', 2)
  return name!.trim().toLowerCase() === 'q' && Number(value) === 0
}
