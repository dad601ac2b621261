import { gzipSync } from 'node:zlib'

/** A request to be logged. */
export interface Logged {
  readonly timeMs: number
  readonly method?: string
  readonly uri: string
  readonly host?: string
  readonly client?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** One log of these requests in each format. Not every format can say everything. */
export const LOG_WRITERS = {
  json: (requests: readonly Logged[]): string =>
    lines(requests.map(({ timeMs, method = 'GET', ...rest }) => ({ time: time(timeMs), method, ...rest }))),
  nginxJson: (requests: readonly Logged[]): string =>
    lines(
      requests.map(({ timeMs, method = 'GET', uri, host = '', client = '', headers = {} }) => ({
        time_iso8601: time(timeMs),
        msec: (timeMs / 1000).toFixed(3),
        request_method: method,
        request_uri: uri,
        host,
        remote_addr: client,
        ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [`http_${name.replaceAll('-', '_')}`, value])),
      })),
    ),
  combined: (requests: readonly Logged[]): string => requests.map((request) => `${combinedLine(request)}\n`).join(''),
  har: (requests: readonly Logged[]): string =>
    JSON.stringify({
      log: {
        version: '1.2',
        entries: requests.map(({ timeMs, method = 'GET', uri, host = 'api.example', headers = {} }) => ({
          startedDateTime: time(timeMs),
          request: { method, url: `https://${host}${uri}`, headers: Object.entries(headers).map(([name, value]) => ({ name, value })) },
          response: { status: 200 },
        })),
      },
    }),
  gzip: (requests: readonly Logged[]): Buffer => gzipSync(LOG_WRITERS.json(requests)),
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** Seconds are all that its time has. It is an hour ahead of UTC. */
export function combinedLine({ timeMs, method = 'GET', uri, client = '-', headers = {} }: Logged): string {
  const local = time(timeMs + 3_600_000)
  const date = `${local.slice(8, 10)}/${MONTHS[Number(local.slice(5, 7)) - 1]}/${local.slice(0, 4)}`
  const quoted = (name: string): string => `"${headers[name] ?? '-'}"`
  return `${client} - - [${date}:${local.slice(11, 19)} +0100] "${method} ${uri} HTTP/1.1" 200 17 ${quoted('referer')} ${quoted('user-agent')}`
}

function lines(requests: readonly object[]): string {
  return requests.map((request) => `${JSON.stringify(request)}\n`).join('')
}

function time(ms: number): string {
  return new Date(ms).toISOString()
}
