import type { Random } from '../../random/random.ts'
import { BODIES, ODD_FIELDS } from '../../service/odd-heads.ts'
import { validRequest } from './proxied-requests.ts'
import { SMUGGLING } from './smuggling-vectors.ts'

/** Bytes of which nobody knows beforehand what they are answered with. */
export function damagedRequest(random: Random, caller: string): string {
  const { text } = validRequest(random, caller)
  return random.oneOf(DAMAGES)(random, text)
}

type Damage = (random: Random, text: string) => string

const edited: Damage = (random, text) => {
  let edited = text
  for (let i = random.below(3); i >= 0; i--) {
    // Most edits are to hit the head and the frames of the body.
    const at = random.below(Math.min(edited.length, 600))
    edited = edited.slice(0, at) + random.oneOf(BYTES) + edited.slice(at + random.below(3))
  }
  return edited
}

const BYTES = [
  ...[
    '',
    '',
    '\r',
    '\n',
    '\0',
    ' ',
    '\t',
    ':',
    ',',
    ';',
    '\x7f',
    '\x80',
    '\xff',
    'a',
    'Z',
    '0',
    '\r\n',
    '\r\n\r\n',
    '\r\n ',
    '/',
    '_',
    '\x0b',
    '-',
    '+',
    '"',
  ],
]

const withOddField: Damage = (random, text) => text.replace('\r\n', `\r\n${random.oneOf(ODD_FIELDS)}\r\n`)
const withOddLastField: Damage = (random, text) => text.replace('\r\n\r\n', `\r\n${random.oneOf(ODD_FIELDS)}\r\n\r\n`)
const withOddBody: Damage = (random, text) => `${withOddField(random, text.slice(0, text.indexOf('\r\n\r\n') + 4))}${random.oneOf(BODIES)}`
const truncated: Damage = (random, text) => text.slice(0, random.below(text.length))
const extended: Damage = (random, text) =>
  text + random.oneOf(['x', '\r\n', '\r\n\r\n', '\n', '\0', 'GET', 'GET / HTTP/1.1\r\n', '0\r\n\r\n'])
const preceded: Damage = (random, text) => random.oneOf(['\r\n', '\n', '\r\n\r\n', ' ', '\0', '\r']) + text
const otherEnds: Damage = (random, text) => text.replaceAll('\r\n', random.oneOf(['\n', '\r', '\r\r\n', '\n\r\n']))
const otherVersion: Damage = (random, text) =>
  text.replace('HTTP/1.1', random.oneOf(['HTTP/1.0', 'HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'http/1.1', 'HTTP/1.1 ', 'HTTP/01.1', '']))
const otherStart: Damage = (random, text) =>
  random.oneOf(['get', 'G', 'PRI', 'CONNECT', 'SMUGGLE', '', ' GET', 'GET ', 'GET\t']) + text.replace(/^\S+/, '')
const longHead: Damage = (random, text) => {
  const [kib, width] = [random.oneOf([8, 15.5, 16, 17, 63, 70]), random.oneOf([20, 4000])]
  return text.replace('\r\n\r\n', `\r\n${`X-Pad: ${'p'.repeat(width)}\r\n`.repeat(Math.ceil((kib * 1024) / (width + 9)))}\r\n`)
}
const smuggled: Damage = (random) => random.oneOf(SMUGGLING).bytes
const webSocket: Damage = (_random, text) =>
  `${text.replace(/^\S+/, 'GET').replace('\r\n', '\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n')}early`

const DAMAGES: readonly Damage[] = [
  ...[edited, edited, edited, edited, edited, edited, withOddField, withOddField, withOddField, withOddLastField, withOddBody, withOddBody],
  ...[truncated, extended, preceded, otherEnds, otherVersion, otherStart, smuggled, webSocket],
  ...[edited, withOddField, withOddBody, smuggled, longHead],
]
