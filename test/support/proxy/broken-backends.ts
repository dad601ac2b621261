/** What a client gets of a response that did not come as it should. */
export type Expected =
  /** Edge responds in the backend's place. */
  | { readonly refused: 'backend_reset' | 'backend_invalid' | 'backend_timeout' }
  /** What began is broken off, and nobody takes it for the whole. */
  | { readonly broken: 'backend_reset' | 'backend_invalid' | 'backend_timeout' }
  | { readonly whole: string; readonly status?: number }

/** A backend that misbehaves in one way. */
export interface BrokenBackend {
  readonly name: string
  /** The client's request; its target is `/`. */
  readonly asks?: string
  /** What the backend sends when it has the head, each piece by itself. */
  readonly says: readonly string[]
  /** What the client has seen before the backend ends. */
  readonly shows?: string
  readonly leaves?: 'end' | 'reset'
  /** The request comes on a connection that has carried another. */
  readonly isReused?: boolean
  readonly expected: Expected
}

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const POST = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc'
const HALF_UPLOAD = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc'
const HALF_CHUNKS = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n'

const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
const COUNTED = 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n'
const ENDLESS = 'HTTP/1.1 200 OK\r\n\r\n'
const HEAD = 'HTTP/1.1 200'

interface Moment {
  readonly name: string
  readonly says: readonly string[]
  readonly shows?: string
}

/** Every state in which a response can be left. */
const MOMENTS: readonly Moment[] = [
  { name: 'before its first byte', says: [] },
  { name: 'in its status line', says: ['HTTP/1.1 2'] },
  { name: 'in its head', says: ['HTTP/1.1 200 OK\r\nContent-Le'] },
  { name: 'before the blank line', says: ['HTTP/1.1 200 OK\r\nContent-Length: 9\r\n'] },
  { name: 'in the blank line', says: ['HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r'] },
  { name: 'after a 100', says: ['HTTP/1.1 100 Continue\r\n\r\n'] },
  { name: 'after a 103', says: ['HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'], shows: 'HTTP/1.1 103' },
  { name: 'in the head behind a 103', says: ['HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 20'], shows: 'HTTP/1.1 103' },
  { name: 'behind the head of a counted body', says: [COUNTED], shows: HEAD },
  { name: 'in a counted body', says: [COUNTED, 'half'], shows: 'half' },
  { name: 'one byte before the end of a counted body', says: [COUNTED, 'halfhalf'], shows: 'halfhalf' },
  { name: 'behind the head of chunks', says: [CHUNKED], shows: HEAD },
  { name: 'in a chunk size', says: [`${CHUNKED}4\r\nhalf\r\n`, '1'], shows: 'half' },
  { name: 'in the line end of a chunk size', says: [`${CHUNKED}4\r\nhalf\r\n`, '4\r'], shows: 'half' },
  { name: 'behind a chunk size', says: [`${CHUNKED}4\r\nhalf\r\n`, '4\r\n'], shows: 'half' },
  { name: 'in a chunk', says: [CHUNKED, '9\r\nhalf'], shows: 'half' },
  { name: 'behind the last byte of a chunk', says: [CHUNKED, '4\r\nhalf'], shows: 'half' },
  { name: 'in the line end of a chunk', says: [CHUNKED, '4\r\nhalf\r'], shows: 'half' },
  { name: 'between chunks', says: [CHUNKED, '4\r\nhalf\r\n'], shows: 'half' },
  { name: 'in the last chunk size', says: [`${CHUNKED}4\r\nhalf\r\n`, '0'], shows: 'half' },
  { name: 'behind the last chunk size', says: [`${CHUNKED}4\r\nhalf\r\n`, '0\r\n'], shows: 'half' },
  { name: 'in a trailer', says: [`${CHUNKED}4\r\nhalf\r\n`, '0\r\nX-T: 1'], shows: 'half' },
  { name: 'behind a trailer', says: [`${CHUNKED}4\r\nhalf\r\n`, '0\r\nX-T: 1\r\n'], shows: 'half' },
  { name: 'in the last line end', says: [`${CHUNKED}4\r\nhalf\r\n`, '0\r\n\r'], shows: 'half' },
  { name: 'behind the head of a body without length', says: [ENDLESS], shows: HEAD },
  { name: 'in a body without length', says: [ENDLESS, 'half'], shows: 'half' },
]

const REQUESTS: readonly (readonly [what: string, asks: string])[] = [
  ['a GET', GET],
  ['a POST', POST],
  ['half an upload', HALF_UPLOAD],
  ['half an upload in chunks', HALF_CHUNKS],
]

/** Backends that leave in any state, in both ways, whatever was asked. */
export const LEAVING: readonly BrokenBackend[] = REQUESTS.flatMap(([what, asks]) =>
  MOMENTS.flatMap((moment) =>
    (['end', 'reset'] as const).map((leaves) => ({
      ...moment,
      asks,
      leaves,
      name: `${leaves}s ${moment.name}, asked by ${what}`,
      expected: isWholeAtEnd(moment, leaves) ? { whole: moment.says[1] ?? '' } : brokenAt(moment, 'backend_reset'),
    })),
  ),
)

/** Backends that fall silent in any state. */
export const SILENT: readonly BrokenBackend[] = MOMENTS.map((moment) => ({
  ...moment,
  name: `is silent ${moment.name}`,
  expected: brokenAt(moment, 'backend_timeout'),
}))

function isWholeAtEnd({ says: [head] }: Moment, leaves: 'end' | 'reset'): boolean {
  return leaves === 'end' && head === ENDLESS
}

function brokenAt({ shows }: Moment, reason: 'backend_reset' | 'backend_timeout'): Expected {
  return shows === undefined || shows === 'HTTP/1.1 103' ? { refused: reason } : { broken: reason }
}

const INVALID = { refused: 'backend_invalid' } as const
const BROKEN = { broken: 'backend_invalid' } as const
const RESET = { refused: 'backend_reset' } as const

/** Backends that say what they should not. */
export const ODD: readonly BrokenBackend[] = [
  { name: 'garbage', says: ['\x00\xff\x16\x03'], expected: INVALID },
  { name: 'garbage behind an interim response', says: ['HTTP/1.1 103 Early Hints\r\n\r\n', 'rubbish'], expected: INVALID },
  { name: 'two heads', says: [`${COUNTED}HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n`], expected: { whole: 'HTTP/1.1 ' } },
  { name: 'two responses at once', says: [`${COUNTED}123456789${COUNTED}abcdefghi`], expected: { whole: '123456789' } },
  { name: 'two responses, one after the other', says: [`${COUNTED}123456789`, `${COUNTED}abcdefghi`], expected: { whole: '123456789' } },
  { name: 'bytes behind a counted body', says: [`${COUNTED}123456789!`], expected: { whole: '123456789' } },
  { name: 'bytes behind the last chunk', says: [`${CHUNKED}2\r\nok\r\n0\r\n\r\nmore`], expected: { whole: 'ok' } },
  { name: 'bytes behind the last chunk, by themselves', says: [`${CHUNKED}2\r\nok\r\n0\r\n\r\n`, 'more'], expected: { whole: 'ok' } },
  { name: 'a line end behind the last chunk', says: [`${CHUNKED}2\r\nok\r\n0\r\n\r\n\r\n`], expected: { whole: 'ok' } },
  { name: 'a body shorter than its length', says: [COUNTED, '1234'], shows: '1234', leaves: 'end', expected: { broken: 'backend_reset' } },
  { name: 'an empty body where a length is', says: [COUNTED], shows: HEAD, leaves: 'end', expected: { broken: 'backend_reset' } },
  { name: 'chunks with extensions', says: [`${CHUNKED}2;a=b\r\nok\r\n0;c\r\n\r\n`], expected: { whole: 'ok' } },
  {
    name: 'chunks with extensions, size by size',
    says: [CHUNKED, '2;a="', 'b"\r\n', 'ok\r\n2 ;x\r\nok\r\n0;', 'c\r\n\r\n'],
    expected: { whole: 'okok' },
  },
  { name: 'sizes with zeros before them', says: [`${CHUNKED}0002\r\nok\r\n000\r\n\r\n`], expected: { whole: 'ok' } },
  { name: 'sizes in capitals', says: [`${CHUNKED}A\r\n0123456789\r\n0\r\n\r\n`], expected: { whole: '0123456789' } },
  { name: 'a size with a space behind it', says: [CHUNKED, '2 \r\nok\r\n0\r\n\r\n'], shows: HEAD, expected: BROKEN },
  { name: 'a size with a tab before it', says: [CHUNKED, '\t2\r\nok\r\n0\r\n\r\n'], shows: HEAD, expected: BROKEN },
  { name: 'a size with a sign', says: [CHUNKED, '+2\r\nok\r\n0\r\n\r\n'], expected: BROKEN },
  { name: 'a negative size', says: [CHUNKED, '-2\r\nok\r\n0\r\n\r\n'], expected: BROKEN },
  { name: 'a size with 0x', says: [CHUNKED, '0x2\r\nok\r\n0\r\n\r\n'], expected: BROKEN },
  { name: 'a size with an underscore', says: [CHUNKED, '1_0\r\nok\r\n0\r\n\r\n'], expected: BROKEN },
  { name: 'a size beyond 2 to the 53rd', says: [CHUNKED, '20000000000000\r\nok'], expected: BROKEN },
  { name: 'a size beyond 2 to the 64th', says: [CHUNKED, '10000000000000002\r\nok\r\n0\r\n\r\n'], expected: BROKEN },
  {
    name: 'a huge size and an end',
    says: [CHUNKED, 'ffffffffffff\r\nhalf'],
    shows: 'half',
    leaves: 'end',
    expected: { broken: 'backend_reset' },
  },
  { name: 'an empty size', says: [CHUNKED, '\r\nok\r\n0\r\n\r\n'], expected: BROKEN },
  { name: 'an extension without a size', says: [CHUNKED, ';a=b\r\nok\r\n0\r\n\r\n'], expected: BROKEN },
  { name: 'a size that ends in LF', says: [CHUNKED, '2\nok\r\n0\r\n\r\n'], expected: BROKEN },
  { name: 'a size that ends in CR', says: [CHUNKED, '2\rok\r\n0\r\n\r\n'], expected: BROKEN },
  { name: 'an extension with LF in it', says: [CHUNKED, '2;a=\nb\r\nok\r\n0\r\n\r\n'], expected: BROKEN },
  { name: 'an extension with NUL in it', says: [CHUNKED, '2;a=\x00\r\nok\r\n0\r\n\r\n'], expected: BROKEN },
  { name: 'an extension of 5,000 bytes', says: [CHUNKED, `2;${'a'.repeat(5000)}\r\nok\r\n0\r\n\r\n`], expected: BROKEN },
  { name: 'a chunk that ends in LF', says: [CHUNKED, '2\r\nok\n0\r\n\r\n'], shows: 'ok', expected: BROKEN },
  { name: 'a chunk that ends in CR', says: [CHUNKED, '2\r\nok\r0\r\n\r\n'], shows: 'ok', expected: BROKEN },
  { name: 'a chunk that ends in CR, alone', says: [CHUNKED, '2\r\nok\r', '0\r\n\r\n'], shows: 'ok', expected: BROKEN },
  { name: 'a chunk longer than its size', says: [CHUNKED, '2\r\noka\r\n0\r\n\r\n'], shows: 'ok', expected: BROKEN },
  { name: 'a chunk shorter than its size', says: [CHUNKED, '3\r\nok\r\n0\r\n\r\n'], shows: 'ok', expected: BROKEN },
  { name: 'an invalid size behind a good chunk in one piece', says: [CHUNKED, '2\r\nok\r\nzz\r\n'], shows: 'ok', expected: BROKEN },
  { name: 'an invalid size in pieces', says: [CHUNKED, '2\r\nok\r\n', '1', '0', 'g', '\r\n'], shows: 'ok', expected: BROKEN },
  { name: 'trailers', says: [`${CHUNKED}2\r\nok\r\n0\r\nX-T: 1\r\nX-T: 2\r\n\r\n`], expected: { whole: 'ok' } },
  { name: 'a trailer without a colon', says: [CHUNKED, '2\r\nok\r\n', '0\r\nX-T\r\n\r\n'], shows: 'ok', expected: BROKEN },
  { name: 'a trailer with NUL', says: [CHUNKED, '2\r\nok\r\n', '0\r\nX-T: \x00\r\n\r\n'], shows: 'ok', expected: BROKEN },
  { name: 'a folded trailer', says: [CHUNKED, '2\r\nok\r\n', '0\r\nX-T: 1\r\n 2\r\n\r\n'], shows: 'ok', expected: BROKEN },
  {
    name: 'trailers that frame',
    says: [`${CHUNKED}2\r\nok\r\n0\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n`],
    expected: { whole: 'ok' },
  },
  {
    name: 'trailers of 70,000 bytes',
    says: [CHUNKED, '2\r\nok\r\n', `0\r\nX-T: ${'x'.repeat(70_000)}\r\n\r\n`],
    shows: 'ok',
    expected: BROKEN,
  },
  { name: 'empty chunks of a stream that goes on', says: [`${CHUNKED}1\r\na\r\n0\r\n\r\n1\r\nb\r\n0\r\n\r\n`], expected: { whole: 'a' } },
  { name: '101 interim responses', says: ['HTTP/1.1 102 Processing\r\n\r\n'.repeat(101)], expected: INVALID },
  {
    name: '100 interim responses',
    says: [`${'HTTP/1.1 102 Processing\r\n\r\n'.repeat(100)}${COUNTED}123456789`],
    expected: { whole: '123456789' },
  },
  {
    name: 'interim responses without end, one by one',
    says: Array.from({ length: 150 }, () => 'HTTP/1.1 100 Continue\r\n\r\n'),
    expected: INVALID,
  },
  {
    name: 'an interim response with a length',
    says: [`HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n${COUNTED}123456789`],
    expected: { whole: '123456789' },
  },
  { name: 'a 101 that nobody asked for', says: ['HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nhello'], expected: INVALID },
  { name: 'a 101 during an upload', asks: HALF_UPLOAD, says: ['HTTP/1.1 101 Switching Protocols\r\n\r\n'], expected: INVALID },
  { name: 'a 204 with a body', says: ['HTTP/1.1 204 No Content\r\n\r\nbody'], expected: { whole: '', status: 204 } },
  {
    name: 'a 204 with a length and a body',
    says: ['HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nbody'],
    expected: { whole: '', status: 204 },
  },
  {
    name: 'a 204 with chunks',
    says: ['HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'],
    expected: { whole: '', status: 204 },
  },
  { name: 'a 304 with a body', says: ['HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nbody'], expected: { whole: '', status: 304 } },
  { name: 'a HEAD with a body', asks: 'HEAD / HTTP/1.1\r\nHost: a\r\n\r\n', says: [`${COUNTED}123456789`], expected: { whole: '' } },
  {
    name: 'a HEAD with chunks',
    asks: 'HEAD / HTTP/1.1\r\nHost: a\r\n\r\n',
    says: [`${CHUNKED}2\r\nok\r\n0\r\n\r\n`],
    expected: { whole: '' },
  },
  { name: 'a HEAD without length', asks: 'HEAD / HTTP/1.1\r\nHost: a\r\n\r\n', says: [ENDLESS], expected: { whole: '' } },
  { name: 'a response that keeps alive and closes', says: [`${COUNTED}123456789`], leaves: 'end', expected: { whole: '123456789' } },
  {
    name: 'a response that keeps alive and resets',
    says: [`${COUNTED}123456789`],
    shows: '123456789',
    leaves: 'reset',
    expected: { whole: '123456789' },
  },
  {
    name: 'Keep-Alive: timeout=0',
    says: ['HTTP/1.1 200 OK\r\nKeep-Alive: timeout=0\r\nContent-Length: 2\r\n\r\nok'],
    expected: { whole: 'ok' },
  },
  {
    name: 'Connection: close that stays open',
    says: ['HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok'],
    expected: { whole: 'ok' },
  },
  { name: 'HTTP/1.0 with a length', says: ['HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok'], expected: { whole: 'ok' } },
  { name: 'HTTP/1.0 to its end', says: ['HTTP/1.0 200 OK\r\n\r\nok'], leaves: 'end', expected: { whole: 'ok' } },
  { name: 'a used connection that is closed at once: asked again', isReused: true, says: [], leaves: 'end', expected: { whole: 'again' } },
  { name: 'a used connection that is reset at once: asked again', isReused: true, says: [], leaves: 'reset', expected: { whole: 'again' } },
  { name: 'a used connection that is closed at once by a POST', isReused: true, asks: POST, says: [], leaves: 'end', expected: RESET },
  { name: 'a used connection that is reset at once by a POST', isReused: true, asks: POST, says: [], leaves: 'reset', expected: RESET },
  { name: 'a used connection that is closed in a head', isReused: true, says: ['HTTP/1.1 200'], leaves: 'end', expected: RESET },
  { name: 'a used connection that brings garbage', isReused: true, says: ['rubbish'], expected: INVALID },
  { name: 'a response before the end of an upload', asks: HALF_UPLOAD, says: [`${COUNTED}123456789`], expected: { whole: '123456789' } },
  { name: 'a response before the end of chunks', asks: HALF_CHUNKS, says: [`${COUNTED}123456789`], expected: { whole: '123456789' } },
  { name: 'garbage before the end of an upload', asks: HALF_UPLOAD, says: ['rubbish'], expected: INVALID },
]

/** Responses that are whole, and some that are not, each to be cut at every byte. */
export const TO_BE_CUT: readonly Pick<BrokenBackend, 'name' | 'asks' | 'says' | 'leaves'>[] = [
  { name: 'a counted body', says: [`${COUNTED}123456789`] },
  { name: 'chunks', says: [`${CHUNKED}5\r\nhello\r\n01\r\n \r\nA\r\n0123456789\r\n0\r\n\r\n`] },
  { name: 'chunks with extensions and trailers', says: [`${CHUNKED}2;a=b\r\nok\r\n3 ;c="d"\r\nyes\r\n0;e\r\nX-T: 1\r\nY: 2\r\n\r\n`] },
  { name: 'a body without length', says: [`${ENDLESS}123456789`], leaves: 'end' },
  { name: 'interim responses', says: [`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${COUNTED}123456789`] },
  { name: 'a 204', says: ['HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n'] },
  { name: 'a HEAD', asks: 'HEAD / HTTP/1.1\r\nHost: a\r\n\r\n', says: [COUNTED] },
  { name: 'HTTP/1.0', says: ['HTTP/1.0 200 OK\r\nX-A:  b \r\n\r\nbody'], leaves: 'end' },
  { name: 'a counted body to an upload', asks: POST, says: [`${COUNTED}123456789`] },
  { name: 'a chunk that is too long', says: [`${CHUNKED}2\r\nokk\r\n0\r\n\r\n`] },
  { name: 'an invalid second size', says: [`${CHUNKED}2\r\nok\r\n2x\r\nok\r\n0\r\n\r\n`] },
  { name: 'an invalid trailer', says: [`${CHUNKED}2\r\nok\r\n0\r\nX T: 1\r\n\r\n`] },
  { name: 'an invalid head', says: ['HTTP/1.1 200 OK\r\nX-A: b\r\nX A: b\r\n\r\n'] },
]
