/*
 * Licensed under the Apache License, Version 2.0; see the file LICENSE.
 */
package airflow_backfill_provider

import java.io.{FileNotFoundException, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.FileAlreadyExistsException
import java.util.{Arrays, Iterator => JavaIterator}

import scala.jdk.CollectionConverters._

import io.delta.storage.HadoopFileSystemLogStore
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

/**
 * Commits to Delta tables on S3 that at most one of several drivers wins.
 *
 * A commit creates one object. S3 creates it only if there is none (`If-None-Match: *`), so two drivers cannot both have
 * it. Delta's own store for S3 looks first and writes then, so the second of two drivers replaces the commit of the
 * first. Every driver that writes to a table needs this store, or another one that creates commits conditionally.
 */
class ConditionalLogStore(configuration: Configuration) extends HadoopFileSystemLogStore(configuration) {

  @throws[IOException]
  override def write(
      path: Path,
      actions: JavaIterator[String],
      overwrite: java.lang.Boolean,
      configuration: Configuration): Unit = {
    val fs = path.getFileSystem(configuration)
    val content = actions.asScala.map(_ + "\n").mkString.getBytes(UTF_8)
    if (overwrite) {
      put(fs, path, content, isConditional = false)
    } else {
      try put(fs, path, content, isConditional = true)
      catch {
        case failure: IOException => requireWritten(fs, path, content, failure)
      }
    }
  }

  /** S3 shows an object when it is whole. */
  override def isPartialWriteVisible(path: Path, configuration: Configuration): java.lang.Boolean = false

  private def put(fs: FileSystem, path: Path, content: Array[Byte], isConditional: Boolean): Unit = {
    val file = fs.createFile(path).overwrite(!isConditional).recursive()
    if (isConditional) {
      // Not a wish: a file system that does not know the option refuses it.
      file.must("fs.option.create.conditional.overwrite", true)
    }
    val out = file.build()
    var isWhole = false
    try {
      out.write(content)
      isWhole = true
    } finally {
      // To close the stream is to create the object, so what is not whole must not be closed.
      if (isWhole) out.close() else out.abort()
    }
  }

  /**
   * After a failure, nothing is known: the answer may be lost, and the client's next try is then refused because of the
   * first one. What is there tells.
   */
  private def requireWritten(fs: FileSystem, path: Path, content: Array[Byte], failure: IOException): Unit = {
    val found =
      try Some(read(fs, path))
      catch {
        case _: FileNotFoundException => None
        case other: IOException =>
          failure.addSuppressed(other)
          throw failure
      }
    found match {
      case Some(bytes) if Arrays.equals(bytes, content) => ()
      case Some(_) =>
        val exists = new FileAlreadyExistsException(path.toString)
        exists.addSuppressed(failure)
        throw exists
      case None => throw failure
    }
  }

  private def read(fs: FileSystem, path: Path): Array[Byte] = {
    val in = fs.open(path)
    try in.readAllBytes()
    finally in.close()
  }
}
