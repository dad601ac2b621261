import type { Fields } from './http.ts'

/** A question to /v1/decision as bytes: each character is one byte, so that any byte can be asked for. */
export function decisionBytes(fields: Fields, { isLast = false }: { readonly isLast?: boolean } = {}): Buffer {
  const lines = ['POST /v1/decision HTTP/1.1', 'Host: edge', ...fields.map(([name, value]) => `${name}: ${value}`)]
  if (isLast) lines.push('Connection: close')
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
}

/** X-Original-Method and -URI, and what comes beside them. */
export function original(uri: string, ...fields: Fields): Fields {
  return [['X-Original-Method', 'GET'], ['X-Original-URI', uri], ...fields]
}

export interface WireAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
}

/** Takes apart answers that follow one another, none of which has a body. */
export function readAnswers(text: string): WireAnswer[] {
  return text
    .split(/(?=HTTP\/1\.1 \d{3} )/)
    .filter((part) => part !== '')
    .map((part) => {
      const [start, ...lines] = part.split('\r\n')
      const pairs = lines.filter((line) => line.includes(': ')).map((line) => line.split(/: (.*)/s, 2) as [string, string])
      return {
        status: Number(start!.split(' ')[1]),
        headers: Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), value])),
      }
    })
}
