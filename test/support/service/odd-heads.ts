/** What a client sends on one connection. */
export interface Talk {
  /** Well-formed questions, one behind the other, cut anywhere. */
  readonly plain: readonly Buffer[]
  readonly plainHeads: number
  /** What follows when they are all answered: heads of any kind, each cut anywhere. */
  readonly odd: readonly Buffer[]
  readonly oddHeads: number
}

/** For every shape, every odd request line, field and body alone, behind a question that is plain. */
export function* oddTalks(caller: string): Generator<Talk> {
  let count = 0
  for (const [i, startLine] of PLAIN_STARTS.entries()) {
    const talkWith = (change: (head: string) => string): Talk => {
      const head = `${startLine}\r\nHost: edge\r\n${ALL_FAMILIES}X-Api-Key: ${caller}-${count++}\r\n\r\n`
      return { plain: [Buffer.from(head, 'latin1')], plainHeads: 1, odd: [Buffer.from(change(head), 'latin1')], oddHeads: 1 }
    }
    if (i === 0) for (const start of ODD_STARTS) yield talkWith((head) => head.replace(START_LINE, start))
    for (const host of ODD_HOSTS) yield talkWith((head) => head.replace(HOST_LINE, host))
    for (const field of ODD_FIELDS) yield talkWith((head) => head.replace('\r\n', `\r\n${field}\r\n`))
    for (const body of BODIES) {
      for (const framing of ['Content-Length: 5', 'Transfer-Encoding: chunked', 'Content-Length: 5\r\nExpect: 100-continue'])
        yield talkWith((head) => head.replace('\r\n', `\r\n${framing}\r\n`) + body + head)
    }
  }
}

const PLAIN_STARTS = [
  'POST /v1/decision HTTP/1.1',
  'GET /v1/forward-auth HTTP/1.1',
  'HEAD /v1/auth-request HTTP/1.1',
  'DELETE /v1/ext-authz/api/x HTTP/1.1',
]

const ALL_FAMILIES =
  'X-Original-Method: GET\r\nX-Original-URI: /api/x\r\nX-Original-URL: http://h/api/x\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /api/x\r\n'

export const START_LINE = /^.*/
export const HOST_LINE = /^Host:.*\r\n/im

/** In place of Host. */
export const ODD_HOSTS = [
  '',
  'Host:\r\n',
  ...['a b', 'a/b', 'a@b', 'a?b', 'a,b', 'a"b', 'a:b', '[::1', 'a\xe9', '[::1]:80'].map((host) => `Host: ${host}\r\n`),
]

export const ODD_FIELDS = [
  'Content-Length: 5',
  'Content-Length: 0',
  'Content-Length: +0',
  'Content-Length: -1',
  'Content-Length: 0x0',
  'Content-Length: 00',
  'Content-Length: 0, 0',
  'Content-Length:',
  'Content-Length: 99999999999999999999',
  'Content-Length: 0\r\nContent-Length: 5',
  'Content-Length : 0',
  'Content-Length: 0\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked\r\nContent-Length: 5',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: identity',
  'Transfer-Encoding: foo',
  'Transfer-Encoding: foo, chunked',
  'Transfer-Encoding: foo\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked, identity',
  'Transfer-Encoding : chunked',
  'Transfer-Encoding:\tchunked',
  'Transfer-Encoding:\x0bchunked',
  'Transfer-Encoding\r\n: chunked',
  'X: y\r\n Transfer-Encoding: chunked',
  'X: y\r\n\tfolded',
  'X: y\nTransfer-Encoding: chunked',
  'X: y\rTransfer-Encoding: chunked',
  'X : y',
  'X\0: y',
  'X: \0',
  'X: y\0Transfer-Encoding: chunked',
  ' X: y',
  'X',
  ': y',
  'X:  y',
  'X:\ty',
  'X: y ',
  'X: y\t',
  'X: a\tb',
  'X: \x7f',
  'Host: other',
  'Host: ',
  'Connection: close',
  'Connection: Close, keep-alive',
  'Connection: keep-alive, upgrade\r\nUpgrade: h2c',
  'Connection: keep-alive\r\nConnection: close',
  'Connection: x-api-key',
  'Upgrade: websocket',
  'Expect: 100-continue',
  'Expect: something',
  'TE: trailers',
  'Trailer: X',
  'Proxy-Connection: close',
  'Keep-Alive: timeout=1',
  'X-Team:  a',
  'X-Team: a ',
  'X-Team:\ta',
  'X-Team: a\t',
  'X-Original-URI: /second\r\nX-Original-Method: PUT',
  'X-Original-URI: /second',
  'X-Original-Method: GET',
  'X-Forwarded-Uri: /second',
  'x-forwarded-host: b',
  'X-Original-URL: http://h/second',
  'x-original-host: b',
  'X_Original_URI: /',
  'X-Api-Key: second',
  '"quoted": y',
  'X-\xe9: y',
]

export const BODIES = ['', 'hello', '0\r\n\r\n', '5\r\nhello\r\n0\r\n\r\n', '5\r\nhello\r\n0\r\nX-Original-URI: /t\r\n\r\n', 'xyz\r\n']

export const ODD_STARTS = [
  'GET /livez HTTP/1.1',
  'HEAD /livez HTTP/1.1',
  'GET /v1/decision HTTP/1.1',
  'POST /v1/decision HTTP/1.0',
  'POST /v1/decision HTTP/1.2',
  'POST /v1/decision HTTP/2.0',
  'POST /v1/decision HTTP/0.9',
  'POST /v1/decision HTTP/1.0\r\nTransfer-Encoding: chunked',
  'POST /v1/decision HTTP/1.1 ',
  'POST  /v1/decision HTTP/1.1',
  'POST\t/v1/decision HTTP/1.1',
  ' POST /v1/decision HTTP/1.1',
  'post /v1/decision HTTP/1.1',
  'POST /v1/decision http/1.1',
  'POST /v1/decision',
  'POST /v1/decision?x=1 HTTP/1.1',
  'POST /v1/decision# HTTP/1.1',
  'POST /v1/decision/ HTTP/1.1',
  'POST /V1/decision HTTP/1.1',
  'POST //v1/decision HTTP/1.1',
  'POST http://edge/v1/decision HTTP/1.1',
  'POST * HTTP/1.1',
  'OPTIONS * HTTP/1.1',
  'PATCH /nowhere HTTP/1.1',
  'CONNECT edge:80 HTTP/1.1',
  'PRI * HTTP/2.0',
  'POST /v1/decision HTTP/1.1\r\nHost: a',
  'POST /v1/decision HTTP/1.1\n',
  'POST /v1/decision HTTP/1.1\r',
  'get /v1/forward-auth HTTP/1.1',
  'GETS /v1/forward-auth HTTP/1.1',
  'GET /v1/forward-auth/ HTTP/1.1',
  'GET /v1/forward-auth# HTTP/1.1',
  'GET /v1/forward-auth HTTP/1.0',
  'GET /v1/auth-request/x HTTP/1.1',
  'GET /v1/auth-requests HTTP/1.1',
  'GET http://edge/v1/auth-request HTTP/1.1',
  'GET /v1/ext-authz* HTTP/1.1',
  'GET /v1/ext-authzx/api HTTP/1.1',
  'GET /v1/ext-authz#/api HTTP/1.1',
  'GET /v1/ext-authz/api#x HTTP/1.1',
  'GET /v1/ext-authz/api x HTTP/1.1',
  'GET /v1/ext-authz/ap\xe9 HTTP/1.1',
  'GET /v1/ext-authz/ap\x7f HTTP/1.1',
  'GET http://a.example.com/v1/ext-authz/by-host HTTP/1.1',
  'GET http://a.example.com?/v1/ext-authz/by-host HTTP/1.1',
  'CONNECT /v1/ext-authz/ HTTP/1.1',
]
