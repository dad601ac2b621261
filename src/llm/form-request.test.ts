import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { runs } from '../../test/support/run/property-runs.ts'
import { boundaryOf, FormRequestReader } from './form-request.ts'
import type { LlmRequest } from './llm-request.ts'

const AUDIO = 'x'.repeat(4000)
const FIELD = part('form-data; name="model"', 'whisper-1')
const UPLOAD = `${FIELD}${filePart(AUDIO)}--B--\r\n`

describe('an upload', () => {
  test('costs what it has beside its files', () => {
    expect(promptOf(UPLOAD)).toBe(Math.ceil((UPLOAD.length - AUDIO.length - '\r\n--B'.length) / 4))
  })

  test('costs the same in pieces of any size', () => {
    const bytes = Buffer.from(`${filePart('\r\n--\r\n--A')}${UPLOAD}`)
    const whole = promptOf(bytes)
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 12 }), (cuts) => promptOf(bytes, cuts) === whole),
      { numRuns: runs(50) },
    )
  })

  test('is told by a file name that any client writes', () => {
    for (const disposition of [
      'form-data; name="file"; filename="a.mp3"',
      'form-data; name="image[]"; filename="a \\"b\\".png"',
      'form-data; name="file"; filename="gr\u00fcn; x=\\"1\\""; filename*=UTF-8\'\'gr%C3%BCn',
    ])
      expect(promptOf(`${part(disposition, AUDIO)}--B--`)).toBeLessThan(60)
  })

  test('may be streamed', () => {
    expect(read(UPLOAD)).toMatchObject({ isStream: true, requestedTokens: undefined, choices: 1 })
  })
})

describe('text is never cheaper in a form', () => {
  test.each([
    ['a field', part('form-data; name="prompt"', AUDIO)],
    ['a field that has the look of a file', part('form-data; name="a; filename=b"', AUDIO)],
    ['a file without quotes', part('form-data; name=prompt; filename=b', AUDIO)],
    ['a second disposition', `--B\r\nContent-Disposition: form-data; name="p"\r\n${filePart(AUDIO).slice(5)}`],
    ['a folded line', part('form-data; name="file"; filename="a"\r\n ; name="prompt"', AUDIO)],
    ['a lone line end', part('form-data; name="file"; filename="a"\r\nX: \nContent-Disposition: form-data; name="p"', AUDIO)],
    ['no line end behind the delimiter', filePart(AUDIO).replace('--B\r\n', '--B \r\n')],
    ['fields without an end', filePart(AUDIO).replace('\r\n\r\n', `\r\n${'X: y\r\n'.repeat(200)}\r\n`)],
    ['a part behind a delimiter that only some readers see', filePart(`--B\nContent-Disposition: form-data; name="prompt"\n\n${AUDIO}`)],
    ['what follows the end', `${filePart('')}--B--\r\n${AUDIO}\r\n`],
  ])('%s', (_what, parts) => {
    expect(promptOf(`${FIELD}${parts}--B--\r\n`)).toBeGreaterThan(AUDIO.length / 4)
  })

  test.each([
    ['JSON', '{"messages":[]}', 'multipart/form-data; boundary=B'],
    ['a body that begins otherwise', `\r\n${UPLOAD}`, 'multipart/form-data; boundary=B'],
    ['a body that does not end', UPLOAD.slice(0, -8), 'multipart/form-data; boundary=B'],
    ['nothing but a delimiter', '--B--', 'multipart/form-data; boundary=B'],
    ['no body', '', 'multipart/form-data; boundary=B'],
    ['a boundary of another', UPLOAD, 'multipart/form-data; boundary=C'],
    ['a boundary in another case', UPLOAD, 'multipart/form-data; boundary=b'],
    ['two boundaries', UPLOAD, 'multipart/form-data; boundary=B; boundary=C'],
    ['two types', UPLOAD, 'multipart/form-data; boundary=B, application/json'],
    ['another type', UPLOAD, 'multipart/mixed; boundary=B'],
    ['no type', UPLOAD, undefined],
  ])('%s is no upload', (_what, body, type) => {
    expect(boundaryOf(type, Buffer.from(body))).toBeUndefined()
  })

  test.each(['multipart/form-data; boundary=B', 'Multipart/Form-Data;boundary="B"'])('%s is one', (type) => {
    expect(boundaryOf(type, Buffer.from(UPLOAD))).toBe('B')
  })
})

test('a delimiter is found behind what looks like its beginning', () => {
  const file = '----a--a-\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
  const prompt = promptOf(`${file}${'--a'.repeat(999)}------a--a-${'x'.repeat(400)}`, [], '--a--a-')
  expect(prompt).toBe(Math.ceil((file.length + 400) / 4))
})

function part(disposition: string, content: string): string {
  return `--B\r\nContent-Disposition: ${disposition}\r\n\r\n${content}\r\n`
}

function filePart(content: string): string {
  return part('form-data; name="file"; filename="a.mp3"', content)
}

function promptOf(body: string | Buffer, cuts: readonly number[] = [], boundary = 'B'): number {
  return read(body, cuts, boundary).promptTokens
}

function read(body: string | Buffer, cuts: readonly number[] = [], boundary = 'B'): LlmRequest {
  const bytes = Buffer.from(body)
  const reader = new FormRequestReader(boundary)
  let from = 0
  for (const to of [...cuts, bytes.length].sort((a, b) => a - b)) {
    reader.push(bytes, from, to)
    from = to
  }
  return reader.end() as LlmRequest
}
