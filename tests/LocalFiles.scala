package airflow.backfill.tests

import java.net.URI
import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{DelegateToFileSystem, FileStatus, LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.permission.FsPermission

/**
 * Hadoop's local files, with two steps done by Java.
 *
 * PySpark comes without Hadoop's native library. So Hadoop starts a process for every file that it makes, to set the
 * permissions, and for every file that it renames, to ask whether it is a link. Tests make some hundred thousand files.
 */
class RawLocalFiles extends RawLocalFileSystem {

  override def setPermission(path: Path, permission: FsPermission): Unit = {
    val actions = Seq(permission.getUserAction, permission.getGroupAction, permission.getOtherAction)
    val symbols = actions.map(_.SYMBOL).mkString
    Files.setPosixFilePermissions(pathToFile(path).toPath, PosixFilePermissions.fromString(symbols))
  }

  override def getFileLinkStatus(path: Path): FileStatus =
    if (Files.isSymbolicLink(pathToFile(path).toPath)) super.getFileLinkStatus(path) else getFileStatus(path)
}

/** As `fs.file.impl`. */
class LocalFiles extends LocalFileSystem(new RawLocalFiles)

/** As `fs.AbstractFileSystem.file.impl`. */
class LocalFilesOfContexts(uri: URI, conf: Configuration)
    extends DelegateToFileSystem(uri, new RawLocalFiles, conf, "file", false) {

  override def getUriDefaultPort: Int = -1

  override def isValidName(name: String): Boolean = true
}
