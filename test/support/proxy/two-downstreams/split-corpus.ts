import { jwt } from '../../bundles/bundles.ts'
import { HIDDEN } from './smuggling-vectors.ts'

/** Requests that are sent cut in every place. Nothing in them depends on when their bytes come. */
export function splitCorpus(caller: string): readonly string[] {
  const known = `Host: a\r\nX-Api-Key: ${caller}\r\n`
  const get = (fields = '', target = '/a'): string => `GET ${target} HTTP/1.1\r\n${known}${fields}\r\n`
  const post = (framing: string, body: string, target = '/'): string => `POST ${target} HTTP/1.1\r\n${known}${framing}\r\n\r\n${body}`
  const inChunks = (body: string, fields = ''): string => post(`${fields}Transfer-Encoding: chunked`, body)
  const answered = (kind: string): string => get(`X-Answer: ${kind} 7\r\n`)
  const chat = (more: object, kind: string): string => {
    const body = JSON.stringify({ model: 'big', messages: [{ role: 'user', content: 'hello there!' }], ...more })
    return post(`X-Answer: ${kind} 3\r\nContent-Length: ${body.length}`, body, '/v1/chat/completions')
  }
  return [
    get(),
    get('X-Team: \xe9\xff\r\nCookie: a=1; b=2\r\n', '/api/x?y=1'),
    get(`Authorization: Bearer ${jwt({ sub: 'a' })}\r\n`, '/api/x?y=%31'),
    get('x-empty:\r\nX-Wide:  \t wide \t\r\nX-A: 1\r\nX-A: 2\r\n'),
    get('', '/blocked/x'),
    get('', '/livez'),
    get('Connection: close\r\n'),
    get('Connection: keep-alive\r\n'),
    get('Connection: x-team\r\nX-Team: hop\r\n'),
    get('TE: trailers\r\n'),
    get('Upgrade: h2c\r\nConnection: Upgrade\r\n'),
    `${get('Connection: Upgrade\r\nUpgrade: websocket\r\n')}early bytes`,
    get('', 'http://a/a'),
    `HEAD /a HTTP/1.1\r\n${known}\r\n`,
    `OPTIONS * HTTP/1.1\r\n${known}\r\n`,
    `GET /a HTTP/1.0\r\n${known}\r\n`,
    `\r\n\r\n${get()}`,
    ...['empty', 'chunked', 'odd-chunks', 'trailers', 'until-close', 'close', '204', '304', 'interim', 'fields', 'http-1.0'].map(answered),
    ...['event-stream', 'no-reason', 'lengths-twice', '404-length', '500-chunked', 'continue'].map(answered),
    post('Content-Length: 0', ''),
    post('Content-Length: 5', 'hello'),
    post('Content-Length: 05', 'hello'),
    post('Content-Length: 5\r\nExpect: 100-continue', 'hello'),
    post(`Content-Length: ${HIDDEN.length}`, HIDDEN),
    inChunks('0\r\n\r\n'),
    inChunks('5\r\nhello\r\n0\r\n\r\n'),
    inChunks('1\r\na\r\n2\r\nbc\r\n00A\r\n0123456789\r\n0\r\n\r\n'),
    inChunks('3;a=b\r\nabc\r\n3;c="d e"\r\ndef\r\n0;last\r\n\r\n'),
    inChunks('3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n', 'Trailer: X-Sum\r\n'),
    inChunks(`${HIDDEN.length.toString(16)}\r\n${HIDDEN}\r\n0\r\n\r\n`),
    chat({ max_tokens: 5 }, 'json'),
    chat({ stream: true, max_tokens: 5 }, 'stream'),
    chat({ stream: true }, 'stream-length'),
    get() + get() + get(),
    post('Content-Length: 2', 'hi') + inChunks('2\r\nhi\r\n0\r\n\r\n') + get('X-Answer: chunked 5\r\n'),
    get() + get('Connection: close\r\n') + get('', '/never'),
    get() + get('TE: trailers\r\n') + get() + get('Upgrade: nonsense\r\nConnection: Upgrade\r\n') + get(),
    // Refused, each for a reason of its own
    `GET / HTTP/1.1\r\n\r\n${HIDDEN}`,
    `${get()}GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n${HIDDEN}`,
    get('Content-Length : 0\r\n') + HIDDEN,
    get('X: y\r\n folded\r\n') + HIDDEN,
    get('X: y\nZ: bare\r\n') + HIDDEN,
    get('X: \0\r\n') + HIDDEN,
    post('Content-Length: 5\r\nTransfer-Encoding: chunked', `0\r\n\r\n${HIDDEN}`),
    post('Transfer-Encoding: chunked, chunked', `0\r\n\r\n${HIDDEN}`),
    post('Content-Length: +5', `hello${HIDDEN}`),
    inChunks(`x\r\nabc\r\n0\r\n\r\n${HIDDEN}`),
    inChunks(`3\r\nabcd\r\n0\r\n\r\n${HIDDEN}`),
    inChunks(`3\nabc\r\n0\r\n\r\n${HIDDEN}`),
    `${get()}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`,
    'CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n',
    `get / HTTP/1.1\r\n${known}\r\n`,
  ]
}
