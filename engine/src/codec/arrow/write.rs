//! A batch of rows as messages, and as a stream in Arrow's own framing.

use arrow_array::RecordBatch;
use arrow_ipc::writer::{
    DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions,
    StreamWriter,
};
use arrow_ipc::MetadataVersion;
use arrow_schema::ArrowError;

/// What every buffer of a body is padded to: the least that the format allows.
const ALIGN: usize = 8;

fn options() -> Result<IpcWriteOptions, ArrowError> {
    IpcWriteOptions::try_new(ALIGN, false, MetadataVersion::V5)
}

/// The message of the batch's schema, and that of its rows.
pub fn encode(batch: &RecordBatch) -> Result<[EncodedData; 2], ArrowError> {
    let (options, encoder) = (options()?, IpcDataGenerator::default());
    let mut dictionaries = DictionaryTracker::new(false);
    let schema = encoder.schema_to_bytes_with_dictionary_tracker(
        &batch.schema(),
        &mut dictionaries,
        &options,
    );
    let mut context = IpcWriteContext::default();
    let (_, rows) = encoder.encode(batch, &mut dictionaries, &options, &mut context)?;
    Ok([schema, rows])
}

/// The same messages in Arrow's own framing, with the mark of the stream's end.
pub fn stream(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new_with_options(vec![], &batch.schema(), options()?)?;
    writer.write(batch)?;
    writer.into_inner()
}
