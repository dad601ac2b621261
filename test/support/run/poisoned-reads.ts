import { poisonReads } from '../../../src/read-buffer.ts'

// In every test whose edge runs in this process: bytes that were kept without a copy show at once.
poisonReads()
