import type { HeaderList } from '../http/header-list.ts'

/** The fields of a response as the wire carries them: each is `Name: value` and a line end. */
export interface FieldLines {
  readonly text: string
  /** Date, or Content-Length, is one of them. */
  readonly hasDate: boolean
  readonly hasLength: boolean
}

/** Of what a line has beside its name and its value: a colon, a space and a line end. */
export const SEPARATORS_LENGTH = 4

/** The lines of these fields. */
export function linesOf(fields: HeaderList): string {
  let text = ''
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`
  return text
}

/** The fields of these lines, names and values in turn. */
export function headerLines(lines: string): HeaderList {
  const fields: HeaderList = []
  for (let at = 0; at < lines.length; ) {
    const colon = lines.indexOf(':', at)
    const end = lines.indexOf('\r', colon)
    fields.push(lines.slice(at, colon), lines.slice(colon + 2, end))
    at = end + 2
  }
  return fields
}

/** A head as the wire carries it. */
export function headText(status: number, reason: string, { text }: FieldLines): string {
  return `HTTP/1.1 ${status} ${reason}\r\n${text}\r\n`
}
