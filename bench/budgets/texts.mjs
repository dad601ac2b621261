import { createHash } from 'node:crypto'

const TIMES = 6

/**
 * Completions of different kinds, and how many tokens they have: counted once by the tokenizer of GPT-4o, `o200k_base` of tiktoken 0.14.0. What a provider would
 * bill is not known otherwise, because the backend reports no usage.
 */
export const TEXTS = {
  English: text(
    'The night train left the harbour an hour late, because the guard had gone back for a parcel that nobody had come to claim. ' +
      'Rain ran along the windows, and the few passengers who were still awake read the same page of their papers twice. ',
    296,
  ),
  code: text(
    'export function chunksOf<T>(items: readonly T[], size: number): T[][] {\n' +
      '  const chunks: T[][] = []\n  for (let i = 0; i < items.length; i += size) {\n' +
      '    chunks.push(items.slice(i, i + size))\n  }\n  return chunks\n}\n\n',
    379,
  ),
  Chinese: text(
    '夜班火车晚了一个小时才离开港口，因为列车员回去取一个没有人来认领的包裹。雨水沿着车窗流下，几个还醒着的乘客把报纸的同一页读了两遍。',
    354,
  ),
  Arabic: text(
    'غادر قطار الليل الميناء متأخرا ساعة كاملة لأن الحارس عاد ليأخذ طردا لم يأت أحد لاستلامه، وكان المطر يسيل على النوافذ. ',
    247,
  ),
  base64: { content: digits(27), tokens: 782 },
}

function text(sentences, tokens) {
  return { content: sentences.repeat(TIMES), tokens }
}

/** What looks random, and is always the same. */
function digits(hashes) {
  const parts = Array.from({ length: hashes }, (_, i) => createHash('sha256').update(String(i)).digest())
  return Buffer.concat(parts).toString('base64')
}
