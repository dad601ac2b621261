/** Formats of texts that standards define. */

/** RFC 9110 5.6.2: a token, such as a field's name or a method. */
export const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/**
 * Returns the name of a field, given in lower case, as CGI and its descendants read it (RFC 3875 4.1.18; WSGI, Rack, PHP). They turn every
 * character except letters and digits into `_`, so that `x_api_key` and `x.api-key` are the same field to them. We write `-` instead.
 */
export function foldedName(name: string): string {
  return name.replace(/[^a-z0-9-]/g, '-')
}

// RFC 3339 5.6
const DATE_TIME = /^(\d{4})-(\d\d)-(\d\d)[Tt ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

/** Returns NaN for any other text: Date alone accepts far more, reads it in the machine's time zone, and turns 31 February into 3 March. */
export function dateTimeMs(text: string): number {
  const [, year, month, day] = DATE_TIME.exec(text) ?? []
  if (day === undefined || Number(day) < 1 || Number(day) > new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate())
    return Number.NaN
  return Date.parse(text.toUpperCase().replace(' ', 'T'))
}
