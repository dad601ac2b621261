/** RFC 9113 6: frames. */
export const DATA = 0
export const HEADERS = 1
export const PRIORITY = 2
export const RST_STREAM = 3
export const SETTINGS_FRAME = 4
export const PUSH_PROMISE = 5
export const PING = 6
export const GOAWAY = 7
export const WINDOW_UPDATE = 8
export const CONTINUATION = 9

/** Flags. */
export const END_STREAM = 0x1
export const ACK = 0x1
export const END_HEADERS = 0x4
export const PADDED = 0x8
export const HAS_PRIORITY = 0x20

/** RFC 9113 7: errors. */
export const NO_ERROR = 0
export const PROTOCOL_ERROR = 1
export const FLOW_CONTROL_ERROR = 3
export const STREAM_CLOSED = 5
export const FRAME_SIZE_ERROR = 6
export const REFUSED_STREAM = 7
export const CANCEL = 8
export const COMPRESSION_ERROR = 9
export const ENHANCE_YOUR_CALM = 11

export const FRAME_HEAD_BYTES = 9
/** What both sides may send without having agreed on more. We never do. */
export const MAX_FRAME_BYTES = 16_384

export const DEFAULT_WINDOW = 65_535
export const MAX_WINDOW = 2 ** 31 - 1
export const MAX_STREAM_ID = 2 ** 31 - 1

export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')
