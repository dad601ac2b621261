import { expect, test } from 'vitest'
import { decodeHuffman, HpackDecoder } from './hpack-decoder.ts'
import { RequestHead } from './request-head.ts'

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex')

test.each([
  ['f1e3 c2e5 f23a 6ba0 ab90 f4ff', 'www.example.com'],
  ['a8eb 1064 9cbf', 'no-cache'],
  ['25a8 49e9 5ba9 7d7f', 'custom-key'],
  ['25a8 49e9 5bb8 e8b4 bf', 'custom-value'],
  ['6402', '302'],
  ['d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff', 'Mon, 21 Oct 2013 20:13:21 GMT'],
  ['9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3', 'https://www.example.com'],
])('%s is Huffman code for %s (RFC 7541, appendix C)', (code, text) => {
  const target = Buffer.alloc(100)
  expect(target.toString('latin1', 0, decodeHuffman(hex(code), 0, hex(code).length, target, 0))).toBe(text)
})

test.each([
  ['padding of a whole byte', 'a8eb 1064 9cbf ff'],
  ['padding with zeros', 'a8eb 1064 9cb0'],
  ['the end mark', 'ffff ffff'],
])('%s is no Huffman code', (_what, code) => {
  expect(decodeHuffman(hex(code), 0, hex(code).length, Buffer.alloc(100), 0)).toBe(-1)
})

/** Blocks of one connection after the other, with what HTTP/2 counts for each. */
test.each<[what: string, blocks: readonly (readonly [block: string, path: string, bytes: number])[]]>([
  [
    'C.3, requests without Huffman code',
    [
      ['8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d', '/', 42 + 43 + 38 + 57],
      ['8286 84be 5808 6e6f 2d63 6163 6865', '/', 42 + 43 + 38 + 57 + 53],
      ['8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65', '/index.html', 42 + 44 + 48 + 57 + 54],
    ],
  ],
  [
    'C.4, requests with Huffman code',
    [
      ['8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff', '/', 42 + 43 + 38 + 57],
      ['8286 84be 5886 a8eb 1064 9cbf', '/', 42 + 43 + 38 + 57 + 53],
      ['8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf', '/index.html', 42 + 44 + 48 + 57 + 54],
    ],
  ],
  [
    'C.6, responses in a table of 256 bytes',
    [
      [
        '3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3',
        '',
        222,
      ],
      ['4883 640e ffc1 c0bf', '', 222],
      [
        '88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07',
        '',
        42 + 52 + 65 + 63 + 52 + 98,
      ],
    ],
  ],
])('%s: RFC 7541, appendix C', (_what, blocks) => {
  const decoder = new HpackDecoder()
  for (const [block, path, bytes] of blocks) {
    const head = new RequestHead()
    head.begin(false)
    expect(decoder.decode(hex(block), 0, hex(block).length, head)).toBe(true)
    expect([head.path, head.bytes]).toEqual([path, bytes])
  }
})

test.each([
  ['field 0', '80'],
  ['a field that no table has', 'be'],
  ['a number of a field that is too large', 'ffff ffff ffff ffff ffff 7f'],
  ['a number without an end', 'ff80 8080 8080 8080'],
  ['a text that is longer than the block', '0003 6162'],
  ['a length that is longer than any block', '007f ffff ffff ff7f'],
  ['a field without a value', '0001 61'],
  ['a table that is larger than agreed', '3fe2 1f'],
  ['a change of the table behind a field', '82 20'],
  ['code that is not Huffman code', '0081 ff 0161'],
])('%s cannot be decoded', (_what, block) => {
  const head = new RequestHead()
  head.begin(false)
  expect(new HpackDecoder().decode(hex(block), 0, hex(block).length, head)).toBe(false)
})

test('the text of traceparent is there for those who need it, once', () => {
  const traced = (isTraced: boolean, ...values: string[]): RequestHead => {
    const head = new RequestHead()
    head.begin(false)
    const fields = values.map((value) => Buffer.from(`\0\x0btraceparent${String.fromCharCode(value.length)}${value}`, 'latin1'))
    const block = Buffer.concat(fields)
    expect(new HpackDecoder(isTraced).decode(block, 0, block.length, head)).toBe(true)
    return head
  }
  expect(traced(true, '00-a').traceparent).toBe('00-a')
  expect(traced(true, '00-a', '00-a').traceparent).toBe(', ')
  expect(traced(false, '00-a')).toMatchObject({ traceparent: '', isMalformed: false, bytes: 11 + 4 + 32 })
  expect(traced(false, '00\n').isMalformed).toBe(true)
})

test('a field that is larger than the table empties it', () => {
  const decoder = new HpackDecoder()
  const head = new RequestHead()
  const small = hex('4001 6101 62')
  const large = Buffer.concat([hex('4001 61 7f'), hex('a91f'), Buffer.alloc(4096 + 40, 'x')])
  expect(decoder.decode(Buffer.concat([small, hex('be')]), 0, small.length + 1, head)).toBe(true)
  expect(decoder.decode(large, 0, large.length, head)).toBe(true)
  expect(decoder.decode(hex('be'), 0, 1, head)).toBe(false)
})
